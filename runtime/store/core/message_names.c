/* Names of the store's messages, for people who look at them. */
#include "store/core/message.h"
#include "store/core/store.h"

const char *tide_store_message_name(uint64_t op) {
    static const char *const names[TIDE__OP_COUNT] = {
#define TIDE__MESSAGE(name, cast, call, what) [TIDE__OP_##name] = #name,
#include "store/core/message.def"
#undef TIDE__MESSAGE
    };
    return op < TIDE__OP_COUNT ? names[op] : NULL;
}
