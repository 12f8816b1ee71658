/* See fixed.h. */
#include "fixed.h"

#include "actor/context.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Above what address sanitizers keep for themselves, below where the kernel puts anything with
 * either layout of mappings (an unlimited stack makes it start at a third of the address space). */
#define STACK_BASE UINT64_C(0x108000000000)
#define ARENA_BASE UINT64_C(0x110000000000)
#define ARENA_SIZE (UINT64_C(1) << 32)
enum { ARENAS_MAX = 6000, STACK_SIZE = 1 << 18, SMALL = 1024, CLASSES = 64 + 4 * 22 + 1 };

static const int64_t constant_time = 1700000000;

/* At the start of its region. Blocks are of fixed classes; a freed one goes to the head of its
 * class's list. So addresses are a function of the calls alone. */
struct tide_fixed_arena {
    struct tide_fixed_arena *next_free; /* while unused */
    uint64_t used;                      /* bytes of the region ever handed out, this header included */
    uint32_t index;
    void *free[CLASSES];
};

static struct {
    bool enabled, creating;
    uint64_t seed;
    uint64_t (*wall_ns)(void);
    struct context_stack *stack;
    uint32_t arena_count;              /* regions ever used */
    uint32_t free_indices[ARENAS_MAX]; /* the lowest on top */
    uint32_t free_count;
    /* of the state in the making, between its first allocation and its second */
    bool newborn;
    const char *main_block;
    size_t main_size;
} fixed;

/* ---- arenas ---- */

/* The class of a size and the size of its blocks: steps of 16 up to 1 KiB, then four a doubling. */
static unsigned class_of(size_t size, size_t *block) {
    if (size <= SMALL) {
        unsigned class = (unsigned)((size + 15) / 16);
        *block = (size_t) class * 16;
        return class - 1;
    }
    unsigned top = 63 - (unsigned)__builtin_clzll((unsigned long long)(size - 1)); /* >= 10 */
    size_t step = (size_t)1 << (top - 2);
    unsigned quarter = (unsigned)((size - 1 - ((size_t)1 << top)) / step); /* 0..3 */
    *block = ((size_t)1 << top) + (quarter + 1) * step;
    return 64 + (top - 10) * 4 + quarter;
}

static void *arena_take(struct tide_fixed_arena *arena, size_t size) {
    if (size > ARENA_SIZE / 2) {
        return NULL;
    }
    size_t block;
    unsigned class = class_of(size, &block);
    TIDE_ASSERT(class < CLASSES && block >= size);
    void *memory = arena->free[class];
    if (memory) {
        memcpy(&arena->free[class], memory, sizeof(void *));
        return memory;
    }
    if (block > ARENA_SIZE - arena->used) {
        return NULL;
    }
    memory = (char *)arena + arena->used;
    arena->used += block;
    return memory;
}

static void arena_give(struct tide_fixed_arena *arena, void *memory, size_t size) {
    size_t block;
    unsigned class = class_of(size, &block);
    memcpy(memory, &arena->free[class], sizeof(void *));
    arena->free[class] = memory;
}

static void *arena_allocate(void *ud, void *memory, size_t old_size, size_t size);

static uint32_t hash_seed(const struct tide_fixed_arena *arena) {
    return (uint32_t)(tide_mix64(fixed.seed + arena->index) >> 32);
}

/* Lua's own seed mixes an address of code, which differs between builds of this program. It is a
 * private field (lstate.h, struct global_State: allocator and its argument; four counters; the
 * table of strings; two values; the seed), found by the two pointers before it. Written after
 * lua_newstate has set it and before the first string is hashed. check_seed returns whether this was
 * right. */
static void replace_seed(struct tide_fixed_arena *arena) {
    enum { WORDS_BEFORE = 2 + 4 + 2 + 2 + 2 };
    lua_Alloc allocator = arena_allocate;
    const void *argument = arena;
    char state[sizeof allocator + sizeof argument];
    memcpy(state, &allocator, sizeof allocator);
    memcpy(state + sizeof allocator, &argument, sizeof argument);
    for (size_t at = 0; at + (WORDS_BEFORE + 1) * 8 <= fixed.main_size; at += 8) {
        if (memcmp(fixed.main_block + at, state, sizeof state) == 0) {
            uint32_t seed = hash_seed(arena);
            char *field = (char *)(uintptr_t)fixed.main_block + at + (size_t)WORDS_BEFORE * 8;
            memcpy(field, &seed, sizeof seed);
            return;
        }
    }
}

/* lua_Alloc; without a block, old_size is the kind of object that Lua makes. */
static void *arena_allocate(void *ud, void *memory, size_t old_size, size_t size) {
    struct tide_fixed_arena *arena = ud;
    if (!memory || old_size == 0) {
        void *taken = size > 0 ? arena_take(arena, size) : NULL;
        if (fixed.newborn && !fixed.main_block) {
            fixed.main_block = taken;
            fixed.main_size = size;
        } else if (fixed.newborn) {
            replace_seed(arena);
            fixed.newborn = false;
        }
        return taken;
    }
    if (size == 0) {
        arena_give(arena, memory, old_size);
        return NULL;
    }
    size_t block, old_block;
    if (class_of(size, &block) == class_of(old_size, &old_block)) {
        return memory;
    }
    void *moved = arena_take(arena, size);
    if (moved) {
        memcpy(moved, memory, old_size < size ? old_size : size);
        arena_give(arena, memory, old_size);
    }
    return moved;
}

/* Memory at exactly `address`, or EEXIST. */
static int map_at(uint64_t address, size_t size, void **out) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void *wanted = (void *)(uintptr_t)address;
    void *memory = mmap(wanted, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == wanted) {
        *out = memory;
        return 0;
    }
    if (memory != MAP_FAILED) { /* a kernel before 4.17 takes the address as a hint */
        munmap(memory, size);
        return tide_fail(TIDE_EEXIST, "simulator: the address range %#llx is taken", (unsigned long long)address);
    }
    if (errno == EEXIST) {
        return tide_fail(TIDE_EEXIST,
                         "simulator: the address range %#llx of %zu bytes is taken by something "
                         "else in this process (a preloaded library?)",
                         (unsigned long long)address, size);
    }
    return tide_fail(TIDE_ENOMEM, "simulator: cannot map %zu bytes at %#llx: %s (a limit of virtual memory?)", size,
                     (unsigned long long)address, strerror(errno));
}

static int arena_create(struct tide_fixed_arena **out) {
    if (fixed.free_count == 0 && fixed.arena_count == ARENAS_MAX) {
        return tide_fail(TIDE_ELIMIT, "simulator: more than %d Lua states at a time", ARENAS_MAX);
    }
    uint32_t index = fixed.free_count > 0 ? fixed.free_indices[--fixed.free_count] : fixed.arena_count++;
    void *memory;
    int code = map_at(ARENA_BASE + index * ARENA_SIZE, ARENA_SIZE, &memory);
    if (code < 0) {
        fixed.free_indices[fixed.free_count++] = index;
        return code;
    }
    struct tide_fixed_arena *arena = memory;
    arena->index = index;
    arena->used = (sizeof *arena + 63) & ~(uint64_t)63;
    *out = arena;
    return 0;
}

void tide__fixed_destroy(struct tide_fixed_arena *arena) {
    fixed.free_indices[fixed.free_count++] = arena->index;
    TIDE_ASSERT(munmap(arena, ARENA_SIZE) == 0);
}

/* ---- states ---- */

struct creation {
    struct context here, there;
    struct tide_fixed_arena *arena;
    lua_State *state;
};

static void create_on_stack(void *arg) {
    struct creation *c = arg;
    context_started(&c->there, &c->here);
    fixed.newborn = true;
    fixed.main_block = NULL;
    c->state = lua_newstate(arena_allocate, c->arena);
    fixed.newborn = false;
    context_switch(&c->there, &c->here, true);
}

int tide__fixed_create(lua_State **state, struct tide_fixed_arena **arena) {
    TIDE_ASSERT(fixed.enabled);
    struct creation c = {0};
    int code = arena_create(&c.arena);
    if (code < 0) {
        return code;
    }
    context_init_thread(&c.here);
    context_init(&c.there, fixed.stack, create_on_stack, &c);
    fixed.creating = true;
    context_switch(&c.here, &c.there, false);
    context_deinit(&c.there);
    if (!c.state) {
        fixed.creating = false;
        tide__fixed_destroy(c.arena);
        return tide_fail(TIDE_ENOMEM, "out of memory for a Lua state");
    }
    *state = c.state;
    *arena = c.arena;
    return 0;
}

void tide__fixed_made(void) {
    if (fixed.creating) { /* never outside the simulator, where many threads come by */
        fixed.creating = false;
    }
}

/* Whether strings are hashed with our seed: the hash of a short one lies before its text
 * (lobject.h, struct TString), and is this function of seed and text (lstring.c). */
static bool check_seed(lua_State *L, uint32_t seed) {
    static const char text[] = "tide";
    uint32_t found, wanted = seed ^ (uint32_t)(sizeof text - 1);
    for (size_t i = sizeof text - 1; i > 0; i--) {
        wanted ^= (wanted << 5) + (wanted >> 2) + (uint8_t)text[i - 1];
    }
    const char *string = lua_pushstring(L, text);
    memcpy(&found, string - 12, sizeof found);
    lua_pop(L, 1);
    return found == wanted;
}

static int check_lua(void) {
    lua_State *L;
    struct tide_fixed_arena *arena;
    int code = tide__fixed_create(&L, &arena);
    if (code < 0) {
        return code;
    }
    tide__fixed_made();
    bool right = check_seed(L, hash_seed(arena));
    lua_close(L);
    tide__fixed_destroy(arena);
    return right ? 0 : tide_fail(TIDE_EVERSION, "simulator: this Lua (%s) keeps its hash seed elsewhere", LUA_RELEASE);
}

int tide__fixed_enable(void) {
    TIDE_ASSERT(!fixed.enabled);
    void *memory;
    int code = map_at(STACK_BASE, STACK_SIZE, &memory);
    if (code < 0) {
        return code;
    }
    char *top = (char *)memory + STACK_SIZE;
    fixed.stack = (struct context_stack *)(void *)(top - sizeof *fixed.stack);
    *fixed.stack = (struct context_stack){.memory = memory, .size = STACK_SIZE};
    fixed.enabled = true;
    return check_lua();
}

bool tide__fixed_enabled(void) {
    return fixed.enabled;
}

void tide__fixed_seed(uint64_t seed) {
    fixed.seed = seed;
}

void tide__fixed_clock(uint64_t (*wall_ns)(void)) {
    fixed.wall_ns = wall_ns;
}

int64_t tide__fixed_time(void) {
    if (fixed.creating) {
        return (int64_t)tide_mix64(fixed.seed);
    }
    return fixed.wall_ns ? (int64_t)(fixed.wall_ns() / TIDE_SECOND) : constant_time;
}

/* table.sort looks at it to choose pivots. */
int64_t tide__fixed_clock_us(void) {
    return fixed.wall_ns ? (int64_t)(fixed.wall_ns() / 1000 % TIDE_SECOND) : 0;
}
