/* The folder that contains all files of this run, and its removal. */

#ifndef BENCH_MACHINE_WORKSPACE_H
#define BENCH_MACHINE_WORKSPACE_H

#include <stddef.h>

/* Splits the process in two. The caller continues as the worker; its parent waits for the worker,
 * removes the folder however the worker ended (also by a signal or a crash), and exits with the
 * worker's status. To be called once, before everything else. */
void workspaceSupervise(void);

/* Makes a new empty folder in the workspace and writes its path. Each call makes another folder. */
void workspaceFolder(char *path, size_t size);

/* Removes such a folder before the end of the run: append-only files need much space together. */
void workspaceRemove(const char *path);

#endif
