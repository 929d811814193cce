/* time_limit.h - the time limit that Slurm gets for an attempt, and the warning
 * that Slurm sends before it.
 *
 * The controller ends an attempt at the limit of its job. Slurm's limit is
 * later by the margin, and its warning is for a controller that is down. So the
 * warning must not come before the job's own limit, nor take most of a limit
 * that Slurm has chosen. Slurm may send it EARLY_S sooner than it is told
 * (sbatch(1), --signal). */
#ifndef MGPU_SLURM_HELPER_TIME_LIMIT_H
#define MGPU_SLURM_HELPER_TIME_LIMIT_H

/* Slurm's limit for a job that names one, in whole minutes.
 *
 * in  limit_s   of the job, above 0
 *     margin_s  how much later Slurm's is, 0 or more
 *     most      minutes that Slurm takes of this job; 0: any. The margin never
 *               makes a limit longer that fits without it. */
double time_limit_minutes(double limit_s, double margin_s, double most);

/* How long before Slurm's limit Slurm is to warn, in seconds, 0: not at all.
 *
 * in  grace_s   that the job has to save; never more than this
 *     limit_s   the job's own limit
 *     margin_s  as above: an update of the limit may leave no more than this
 *     minutes   Slurm's limit */
double time_limit_warning_s(double grace_s, double limit_s, double margin_s,
                            double minutes);

/* The same for a job that names no limit: no more than half of the time that is
 * left if the warning comes EARLY_S sooner.
 *
 * in  minutes  the shortest limit that Slurm may give it; 0: not known, or
 *              none: then as for a limit that it gets while it runs */
double time_limit_own_warning_s(double grace_s, double margin_s,
                                double minutes);

#endif
