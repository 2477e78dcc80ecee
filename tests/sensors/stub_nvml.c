/* A libnvidia-ml of a few calls, so that the real Python binding can be driven through its own C structs without a
   card. Whatever is not here is a function that the driver lacks. The name of the card is no UTF-8 on purpose. */
#include <string.h>

static int card, events, told;

int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *to, unsigned n) { strncpy(to, "580.159.04", n); return 0; }
int nvmlSystemGetNVMLVersion(char *to, unsigned n) { strncpy(to, "13.580.159.04", n); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void **to) { (void)at; *to = &card; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **to) { (void)uuid; *to = &card; return 0; }
int nvmlDeviceGetUUID(void *of, char *to, unsigned n) {
  if (of != &card) return 2;
  strncpy(to, "GPU-stub", n);
  return 0;
}
int nvmlDeviceGetName(void *of, char *to, unsigned n) { (void)of; strncpy(to, "Stub \xff", n); return 0; }
int nvmlDeviceGetPowerUsage(void *of, unsigned *mw) { (void)of; *mw = 123456; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *of, unsigned *mw) { (void)of; *mw = 275000; return 0; }
int nvmlDeviceGetClockInfo(void *of, int kind, unsigned *mhz) { (void)of; *mhz = kind == 2 ? 9501 : 1560; return 0; }

typedef struct { unsigned version; int sensor, degrees; } temperature;
int nvmlDeviceGetTemperatureV(void *of, temperature *to) {
  (void)of;
  if (to->sensor) return 2;
  to->degrees = 71;
  return 0;
}

typedef struct { unsigned gpu, memory; } use;
int nvmlDeviceGetUtilizationRates(void *of, use *to) { (void)of; to->gpu = 98; to->memory = 40; return 0; }

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
int nvmlDeviceGetMemoryInfo_v2(void *of, memory *to) {
  (void)of;
  to->total = 24576ULL << 20;
  to->reserved = 400ULL << 20;
  to->used = 22011ULL << 20;
  to->free = to->total - to->reserved - to->used;
  return 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *of, unsigned long long *bits) { (void)of; *bits = 0x8004; return 0; }

typedef struct {
  unsigned id, scope;
  long long stamp, latency;
  int type, code;
  union { unsigned u32; unsigned long long u64; int s32; } value;
} field;
int nvmlDeviceGetFieldValues(void *of, int n, field *to) {
  (void)of;
  for (int i = 0; i < n; i++) {
    to[i].code = 0;
    to[i].type = 3;
    to[i].value.u64 = 1000000ULL * to[i].id;
    if (to[i].id == 82) { to[i].type = 1; to[i].value.u64 = 0xdead00000029ULL; }
    if (to[i].id == 194) { to[i].type = 5; to[i].value.u64 = 0; to[i].value.s32 = -2; }
    if (to[i].id == 94) to[i].code = 3;
    if (to[i].id == 230) { to[i].type = 1; to[i].value.u64 = 0; }
  }
  return 0;
}

typedef struct { unsigned pid; unsigned long long held; unsigned instance, compute; } process;
int nvmlDeviceGetComputeRunningProcesses_v3(void *of, unsigned *count, process *to) {
  (void)of;
  if (*count == 0 || !to) { *count = 1; return 7; }
  memset(to, 0, sizeof *to);
  to->pid = 1;
  to->held = ~0ULL;
  *count = 1;
  return 0;
}

typedef struct { void *card; unsigned long long type, data; unsigned instance, compute; } event;
int nvmlDeviceGetSupportedEventTypes(void *of, unsigned long long *bits) { (void)of; *bits = 65439; return 0; }
int nvmlEventSetCreate(void **to) { *to = &events; return 0; }
int nvmlEventSetFree(void *of) { (void)of; return 0; }
int nvmlDeviceRegisterEvents(void *of, unsigned long long bits, void *to) { (void)of; (void)bits; (void)to; return 0; }
int nvmlEventSetWait_v2(void *of, event *to, unsigned ms) {
  (void)of;
  (void)ms;
  if (told++) return 10;
  memset(to, 0, sizeof *to);
  to->card = &card;
  to->type = 8;
  to->data = 31;
  return 0;
}
