/* The folder that everything of this run lives in, and the promise that it goes away. */

#ifndef BENCH_MACHINE_WORKSPACE_H
#define BENCH_MACHINE_WORKSPACE_H

#include <stddef.h>

/* Splits the process in two: the caller goes on as the worker; its parent stays behind, waits,
 * removes the folder however the worker ended (also by a signal or a crash), and exits with the
 * worker's status. To be called once, first. */
void workspaceSupervise(void);

/* Makes a new empty folder in the workspace and writes its path, which the next call does not
 * reuse. */
void workspaceFolder(char *path, size_t size);

/* Removes such a folder before the end of the run: append-only files add up. */
void workspaceRemove(const char *path);

#endif
