/* Start-up code of a Cortex-M: vector table, FPU enable, .data and .bss, then main() if defined. */
#include <stdint.h>

extern uint32_t __data_load[], __data_lower[], __data_upper[];
extern uint32_t __bss_lower[], __bss_upper[], __stack_top[];

int main(void) __attribute__((weak));
void Reset_Handler(void);
void Stay(void);

typedef struct {
    uint32_t *stack_top;
    void (*reset)(void);
} Vectors;

__attribute__((section(".vectors"), used)) const Vectors vectors = {__stack_top, Reset_Handler};

/* Loops forever after main() returns. */
__attribute__((noinline)) void Stay(void) {
    for (;;) {
    }
}

void Reset_Handler(void) {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    /* Coprocessor access control register (Armv7-M manual B3.2.20): CP10 and CP11, full access. */
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20;
    __asm volatile("dsb\n isb" ::: "memory");
#endif
    const uint32_t *from = __data_load;
    for (uint32_t *to = __data_lower; to != __data_upper; ++to) *to = *from++;
    for (uint32_t *to = __bss_lower; to != __bss_upper; ++to) *to = 0;
    if (main) (void)main();
    Stay();
}
