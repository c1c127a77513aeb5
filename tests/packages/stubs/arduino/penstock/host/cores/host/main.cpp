#include "Arduino.h"

Console Serial;

int main() {
    setup();
    return 0;
}
