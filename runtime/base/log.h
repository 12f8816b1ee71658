/*
 * The form of log lines on stderr: text, "2026-11-26 23:15:04.123 warn  n1: what happened", or one
 * JSON object a line, {"time":"2026-11-26T23:15:04.123Z","level":"warn","node":"n1","text":"..."}.
 * Of the whole process, any thread.
 */
#ifndef TIDE_BASE_LOG_H
#define TIDE_BASE_LOG_H

#include <stdbool.h>

void tide_log_json(bool on);

#endif
