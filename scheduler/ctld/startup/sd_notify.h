/* sd_notify.h - sd_notify(3), the few words of it that a daemon says.
 *
 * Whoever keeps the daemon names a socket in $NOTIFY_SOCKET, and in
 * $WATCHDOG_USEC how often it wants to hear that the loop still turns. The
 * protocol is one datagram per word. Without the variable nothing is said.
 */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_SD_NOTIFY_H
#define MGPU_SCHEDULER_CTLD_STARTUP_SD_NOTIFY_H

/* Reads the variables and takes them out of the environment, so that no job
 * speaks in our name. Once, and before there are threads. */
void notify_init(void);

/* "READY=1", "STOPPING=1", ... Nobody listens: that is fine. */
void notify_say(const char *words);
/* "RELOADING=1" with the time that goes with it. */
void notify_reloading(void);

/* How often to say "WATCHDOG=1"; 0: never. Half of what is asked for. */
double notify_watchdog_s(void);

#endif
