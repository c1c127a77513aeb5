#include "Arduino.h"

Console Serial;

unsigned long millis() {
    static unsigned long now = 0;
    return now += 100;
}

int main() {
    setup();
    return 0;
}
