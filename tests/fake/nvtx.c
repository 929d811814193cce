/* nvtx.c - a tool that NVTX's header loads: it writes the ranges that it is
 * told of to the file $FAKE_NVTX_OUT, indented. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;
static int depth;

static int NVTX_API on_push(const char *name)
{
    (void)fprintf(out, "%*s%s\n", 2 * depth, "", name);
    (void)fflush(out);
    return depth++;
}

static int NVTX_API on_pop(void)
{
    return --depth;
}

/* What the header calls once, when the first range begins. */
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *tables = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable core = NULL;
    unsigned n = 0;
    const char *path = getenv("FAKE_NVTX_OUT");
    if (!tables || !path ||
        !tables->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &n))
        return 0;
    out = fopen(path, "we");
    if (!out)
        return 0;
    *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)on_push;
    *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)on_pop;
    return 1;
}
