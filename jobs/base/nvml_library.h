/* nvml_library.h - the calls of NVIDIA's libnvidia-ml, opened with dlopen(3).
 *
 * A program builds and runs without the library, and we declare the few
 * prototypes ourselves. A call returns an NVML code: 0, or one for
 * nvml_library_fail().
 *
 * src  NVIDIA Management Library reference, "Initialization and Cleanup",
 *      "Device Queries" and "Event Handling Methods"; the _v2 names are those
 *      that nvml.h maps the plain ones to since driver 319, nvmlEventSetWait_v2
 *      is of driver 450 */
#ifndef MGPU_BASE_NVML_LIBRARY_H
#define MGPU_BASE_NVML_LIBRARY_H

#include "jobs/base/error.h"

/* NVML_ERROR_...; a query of a lost GPU returns one of the last two, first of
 * all the query for its handle. */
enum {
    NVML_NOT_SUPPORTED = 3,
    NVML_TIMED_OUT = 10,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
};

/* The head of nvmlPciInfo_t; the rest only has to be large enough: the
 * structure has 68 bytes as of driver 580. */
struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
    unsigned char room[128];
};

struct nvml_memory { /* nvmlMemory_t, bytes */
    unsigned long long total, free, used;
};

struct nvml_rates { /* nvmlUtilization_t, percent */
    unsigned gpu, memory;
};

struct nvml_event { /* nvmlEventData_t */
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct nvml_library {
    void *handle; /* of dlopen(); NULL: closed */
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*text)(int code);
    int (*get_count)(unsigned *n);
    int (*get_by_index)(unsigned index, void **ret);
    int (*get_by_uuid)(const char *uuid, void **ret);
    int (*get_by_bus)(const char *bus, void **ret);
    int (*get_name)(void *device, char *ret, unsigned cap);
    int (*get_uuid)(void *device, char *ret, unsigned cap);
    int (*get_pci)(void *device, struct nvml_pci *ret);
    int (*get_memory)(void *device, struct nvml_memory *ret);
    int (*get_rates)(void *device, struct nvml_rates *ret);
    int (*get_ecc)(void *device, int type, int counter,
                   unsigned long long *ret);
    int (*get_temperature)(void *device, int sensor, unsigned *ret);
    int (*get_remapped)(void *device, unsigned *corrected,
                        unsigned *uncorrected, unsigned *is_pending,
                        unsigned *has_failed); /* NULL: an old driver */
    int (*get_set)(void **ret);
    int (*get_events)(void *device, unsigned long long types, void *set);
    int (*get_event)(void *set, struct nvml_event *ret, unsigned ms);
    int (*free_set)(void *set);
};

/* What it is opened for: the calls that it must have. */
enum nvml_use {
    NVML_LIST = 1,    /* count, by index, name, UUID, PCI address, memory */
    NVML_WATCH = 2,   /* by UUID, errors, temperature, events */
    NVML_SAMPLE = 4,  /* by index and by UUID, rates */
    NVML_ADDRESS = 8, /* by PCI address, memory */
};

/* Opens and starts it.
 * in   path  NULL: libnvidia-ml.so.1
 *      uses  of enum nvml_use
 * out  ret   closed if it fails
 * err  ERR_NOTFOUND there is no such library: a machine without a driver;
 *      ERR_EXTERN it is another library, an old one, or does not start */
int nvml_library_open(struct nvml_library *ret, const char *path, unsigned uses,
                      struct error *err) MUST_CHECK;
void nvml_library_close(struct nvml_library *n); /* a closed one is fine */

/* ERR_EXTERN "NVML: what: text of the code". Returns -1. */
int nvml_library_fail(const struct nvml_library *n, const char *what, int code,
                      struct error *err);

#endif
