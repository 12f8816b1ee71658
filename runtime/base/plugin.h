#ifndef TIDE_BASE_PLUGIN_H
#define TIDE_BASE_PLUGIN_H

#include <stddef.h>

/* The address of `symbol` in the plugin `file`, which is searched where the run path of this program or library says,
 * which a build and an installation set, then where this build installs plugins; or, if given, in `directory` alone.
 * NULL: `reason` says what both attempts came to. */
void *tide__plugin_load(const char *file, const char *directory, const char *symbol, char *reason, size_t size);

#endif
