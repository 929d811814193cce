/* version.h - what --version says. */
#ifndef MGPU_BASE_VERSION_H
#define MGPU_BASE_VERSION_H

#define MGPU_VERSION "0.1.0"

#endif
