/* version.h - the version that --version prints. */
#ifndef MGPU_BASE_VERSION_H
#define MGPU_BASE_VERSION_H

#define MGPU_VERSION "0.1.0"

#endif
