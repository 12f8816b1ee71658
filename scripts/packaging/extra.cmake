# Writes texts of the built program into OUTPUT: man/ (a page a command), bash/, zsh/, fish/ (completions) and
# doc/ (copyright, changelog). Run by the build with TIDE, OUTPUT,
# VERSION, LICENSE, MAINTAINER.
file(REMOVE_RECURSE ${OUTPUT})

function(ask file)
  execute_process(COMMAND ${TIDE} ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# No name and no time in the header: the same text gives the same bytes.
function(compress)
  execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY ${OUTPUT}/man ${OUTPUT}/bash ${OUTPUT}/zsh ${OUTPUT}/fish ${OUTPUT}/doc)
execute_process(COMMAND ${TIDE} help --format names OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(STRIP "${names}" names)
string(REPLACE "\n" ";" names "${names}")
ask(${OUTPUT}/man/tide.1 help --format man)
ask(${OUTPUT}/man/tide-sim.1 help --format man sim)
foreach(name IN LISTS names)
  if(NOT name STREQUAL "sim")
    ask(${OUTPUT}/man/tide-${name}.1 help --format man ${name})
  endif()
endforeach()
file(GLOB pages ${OUTPUT}/man/*.1)
compress(${pages})

ask(${OUTPUT}/bash/tide completion bash)
ask(${OUTPUT}/zsh/_tide completion zsh)
ask(${OUTPUT}/fish/tide.fish completion fish)

configure_file(${LICENSE} ${OUTPUT}/doc/copyright COPYONLY)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH's, if it is set
file(WRITE ${OUTPUT}/doc/changelog "tide (${VERSION}) unstable; urgency=medium

  * The packages of this version, built from its sources by ./dev package.

 -- ${MAINTAINER}  ${date}
")
compress(${OUTPUT}/doc/changelog)
file(WRITE ${OUTPUT}/done "")
