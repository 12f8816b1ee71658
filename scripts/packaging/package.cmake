# What an installation has beside programs and libraries, and how CPack makes Debian packages of it (docs/guides/packages.md).
#
# Packages: tide (programs, plugins, examples, manual), libtide1, libtide-client0, python3-tide, libtide-dev, and
# tide-cuda where nvcc built the module.
# The same sources give the same bytes: times are SOURCE_DATE_EPOCH's, paths of the build are mapped away (./dev package).

set(TIDE_EXTRA ${CMAKE_BINARY_DIR}/extra)
set(TIDE_MAINTAINER "The Tide developers <tide@localhost>") # Debian's tools say by these two who packs
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(TIDE_MAINTAINER "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
file(GLOB TIDE_COMMANDS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lua/tide/command/*.lua)
set(TIDE_PACKAGING ${CMAKE_SOURCE_DIR}/scripts/packaging)
add_custom_command(
  OUTPUT ${TIDE_EXTRA}/done
  COMMAND ${CMAKE_COMMAND} -DTIDE=$<TARGET_FILE:tide> -DOUTPUT=${TIDE_EXTRA} -DVERSION=${PROJECT_VERSION}
          -DLICENSE=${TIDE_PACKAGING}/copyright "-DMAINTAINER=${TIDE_MAINTAINER}" -P ${TIDE_PACKAGING}/extra.cmake
  DEPENDS tide ${TIDE_PACKAGING}/extra.cmake ${TIDE_PACKAGING}/copyright ${TIDE_COMMANDS} VERBATIM)
add_custom_target(tide_extra ALL DEPENDS ${TIDE_EXTRA}/done)

install(DIRECTORY ${TIDE_EXTRA}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tide OPTIONAL)
install(DIRECTORY ${TIDE_EXTRA}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tide OPTIONAL)
install(DIRECTORY ${TIDE_EXTRA}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT tide OPTIONAL)
install(DIRECTORY ${TIDE_EXTRA}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tide OPTIONAL)
configure_file(${TIDE_PACKAGING}/tide-node@.service.in ${CMAKE_BINARY_DIR}/tide-node@.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tide-node@.service DESTINATION lib/systemd/system COMPONENT tide)

set(TIDE_COMPONENTS tide libtide1 libtide-client0 python3-tide libtide-dev)
if(TARGET tide_cuda)
  list(APPEND TIDE_COMPONENTS tide-cuda)
endif()
foreach(component IN LISTS TIDE_COMPONENTS)
  install(DIRECTORY ${TIDE_EXTRA}/doc/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${component} COMPONENT ${component} OPTIONAL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tide)
set(CPACK_PACKAGE_VENDOR "Tide")
set(CPACK_PACKAGE_CONTACT "${TIDE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL ${TIDE_COMPONENTS})
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_TIDE_PACKAGE_NAME tide)
set(CPACK_DEBIAN_TIDE_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TIDE_PACKAGE_DEPENDS "libopenblas0-pthread | libopenblas0") # by dlopen
set(CPACK_DEBIAN_TIDE_PACKAGE_SUGGESTS "libtide-dev, wordnet-base")
set(CPACK_COMPONENT_TIDE_DESCRIPTION "The programs tide and tide-sim, their plugins, shipped policies, examples, manual pages, completions for shells
and a systemd unit for nodes.")
set(CPACK_DEBIAN_LIBTIDE1_PACKAGE_NAME libtide1)
set(CPACK_DEBIAN_LIBTIDE1_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBTIDE1_PACKAGE_DEPENDS "libopenblas0-pthread | libopenblas0")
set(CPACK_COMPONENT_LIBTIDE1_DESCRIPTION "Shared libraries for programs with actors and parameter tables of their own:
libtide (actors, tables, Lua) and libtide-actor (actors alone).")
# dpkg runs ldconfig if the package triggers it; packages that link to the libraries learn by shlibs whose they are.
file(WRITE ${CMAKE_BINARY_DIR}/control/triggers "activate-noawait ldconfig\n")
file(WRITE ${CMAKE_BINARY_DIR}/control/shlibs "libtide 1 libtide1 (>= ${PROJECT_VERSION})\nlibtide-actor 1 libtide1 (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBTIDE1_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/control/triggers ${CMAKE_BINARY_DIR}/control/shlibs)
set(CPACK_DEBIAN_LIBTIDE-CLIENT0_PACKAGE_NAME libtide-client0)
set(CPACK_DEBIAN_LIBTIDE-CLIENT0_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBTIDE-CLIENT0_DESCRIPTION "The shared library by which any program reads and writes rows of a running cluster and calls its actors, without Lua
and BLAS.")
file(WRITE ${CMAKE_BINARY_DIR}/control/client/triggers "activate-noawait ldconfig\n")
file(WRITE ${CMAKE_BINARY_DIR}/control/client/shlibs "libtide-client 0 libtide-client0 (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBTIDE-CLIENT0_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/control/client/triggers
    ${CMAKE_BINARY_DIR}/control/client/shlibs)
set(CPACK_DEBIAN_PYTHON3-TIDE_PACKAGE_NAME python3-tide)
set(CPACK_DEBIAN_PYTHON3-TIDE_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3-TIDE_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON3-TIDE_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_PYTHON3-TIDE_PACKAGE_DEPENDS "python3 (>= 3.9), python3-numpy, libtide-client0 (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PYTHON3-TIDE_PACKAGE_SUGGESTS "tide, python3-torch")
set(CPACK_COMPONENT_PYTHON3-TIDE_DESCRIPTION "Rows, actors and runs of a running cluster from Python, blocking or with asyncio.")
set(CPACK_DEBIAN_LIBTIDE-DEV_PACKAGE_NAME libtide-dev)
set(CPACK_DEBIAN_LIBTIDE-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBTIDE-DEV_PACKAGE_DEPENDS "libtide1 (= ${PROJECT_VERSION}), libtide-client0 (= ${PROJECT_VERSION}), libuv1-dev")
set(CPACK_DEBIAN_LIBTIDE-DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_COMPONENT_LIBTIDE-DEV_DESCRIPTION "Headers, the static library, pkg-config files and the CMake package.")
set(CPACK_DEBIAN_TIDE-CUDA_PACKAGE_NAME tide-cuda)
set(CPACK_DEBIAN_TIDE-CUDA_PACKAGE_DEPENDS "tide (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TIDE-CUDA_DESCRIPTION "The module with kernels for NVIDIA devices, which tide loads when one is there.")
foreach(component IN LISTS TIDE_COMPONENTS)
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENT_${upper}_REQUIRED ON)
  set(CPACK_COMPONENT_${upper}_GROUP ${component})
endforeach()
include(CPack)
