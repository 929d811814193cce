/* log.h - one log line per event, for programs only: libraries return errors.
 *
 *   2026-11-21T10:02:11.123Z warn engine: requeued job=41 why="node lost"
 *
 * A message is a sentence without newline, then key=value pairs. Control bytes
 * are escaped, so no client can forge a line. Writing never fails for the
 * caller. A pipe, a socket or a terminal whose reader has stopped delays the
 * caller by 20 ms, once in ten seconds; lines are dropped, and a line with
 * their number precedes the next one that can be written. Writes to a file
 * block.
 *
 * As JSON, a line is {"at":..,"level":..,"area":..,"message":..}: the pairs
 * stay within the message, because their values come from outside and could
 * look like pairs themselves. Bytes that are not UTF-8 become '?'. */
#ifndef MGPU_BASE_LOG_H
#define MGPU_BASE_LOG_H

enum log_level { LOG_ERR, LOG_WARN, LOG_NOTICE, LOG_INFO, LOG_DEBUG };

enum log_format { LOG_TEXT, LOG_JSON };

void log_set_level(enum log_level level);    /* the default is LOG_NOTICE */
void log_set_format(enum log_format format); /* the default is LOG_TEXT */
/* From now on logs to journald, in its own protocol, by fields: MESSAGE,
 * PRIORITY, MGPU_AREA. A line that journald does not accept at once goes to
 * standard error.
 * in  path  LOG_JOURNAL; borrowed.  -1 with errno: journald does not listen */
int log_to_journal(const char *path);
#define LOG_JOURNAL "/run/systemd/journal/socket"
/* The prefix of a line on standard error: "", or if standard error is
 * journald's, as systemd sets in $JOURNAL_STREAM, the priority, as in "<4>",
 * which journald removes. A constant. */
const char *log_prefix(enum log_level level);

void log_line(enum log_level level, const char *area, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_err(area, ...) log_line(LOG_ERR, area, __VA_ARGS__)
#define log_warn(area, ...) log_line(LOG_WARN, area, __VA_ARGS__)
#define log_notice(area, ...) log_line(LOG_NOTICE, area, __VA_ARGS__)
#define log_info(area, ...) log_line(LOG_INFO, area, __VA_ARGS__)
#define log_debug(area, ...) log_line(LOG_DEBUG, area, __VA_ARGS__)

#endif
