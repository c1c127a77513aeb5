// What the sketches use of Arduino's core.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct Console {
    void begin(long) {}
    explicit operator bool() const { return false; } // no serial monitor is open
    void print(const char *text) { fputs(text, stdout); }
    void print(char letter) { putchar(letter); }
    void print(long number) { printf("%ld", number); }
    void print(double number, int digits) { printf("%.*f", digits, number); }
    void println(int number) { printf("%d\n", number); }
    void println() { putchar('\n'); }
};

extern Console Serial;
unsigned long millis();
void setup();
void loop();
