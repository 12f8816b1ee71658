// RocksDB beside a table with a second tier: the access pattern of bench/tier.lua. Rows of 256 bytes, calls of 1,000 keys,
// a block cache of the bytes that the table has as `memory`, which holds index and filter too, direct reads, no
// compression, no log.
//   peer_rocksdb DIR [SECONDS=5] [THREADS=16] [ROWS=400000] [SHARE=0.1]
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kRow = 256, kAtOnce = 1000;

void check(const rocksdb::Status &s, const char *what) {
    if (!s.ok()) {
        std::fprintf(stderr, "%s: %s\n", what, s.ToString().c_str());
        std::exit(1);
    }
}

uint64_t big_endian(uint64_t key) { return __builtin_bswap64(key); }

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: peer_rocksdb DIR [SECONDS] [THREADS] [ROWS] [SHARE]\n");
        return 2;
    }
    const double seconds = argc > 2 ? std::atof(argv[2]) : 5;
    const int threads = argc > 3 ? std::atoi(argv[3]) : 16;
    const uint64_t rows = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 400000;
    const double share = argc > 5 ? std::atof(argv[5]) : 0.1;
    const auto memory = static_cast<size_t>(static_cast<double>(rows) * share * (kRow + 5)) + 8 * rows + (4 << 20);

    rocksdb::BlockBasedTableOptions blocks;
    blocks.block_cache = rocksdb::NewLRUCache(memory);
    blocks.cache_index_and_filter_blocks = true;
    blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    rocksdb::Options options;
    options.create_if_missing = true;
    options.use_direct_reads = true;
    options.use_direct_io_for_flush_and_compaction = true;
    options.compression = rocksdb::kNoCompression;
    options.statistics = rocksdb::CreateDBStatistics();
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
    check(rocksdb::DestroyDB(argv[1], options), "clearing the directory");
    rocksdb::DB *opened = nullptr;
    check(rocksdb::DB::Open(options, argv[1], &opened), "opening");
    const std::unique_ptr<rocksdb::DB> db(opened);

    rocksdb::WriteOptions write;
    write.disableWAL = true;
    std::string value(kRow, 'x');
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t key = big_endian(i);
        std::memcpy(value.data(), &key, sizeof key);
        check(db->Put(write, rocksdb::Slice(reinterpret_cast<const char *>(&key), sizeof key), value), "putting");
    }
    check(db->Flush(rocksdb::FlushOptions()), "flushing");
    check(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr), "compacting");

    const auto measure = [&](const char *name, const std::function<uint64_t(std::mt19937_64 &)> &draw) {
        std::atomic<uint64_t> pulled{0};
        const uint64_t before = options.statistics->getTickerCount(rocksdb::BLOCK_CACHE_DATA_MISS);
        const double began = now();
        std::vector<std::thread> all;
        for (int t = 0; t < threads; t++) {
            all.emplace_back([&, t] {
                std::mt19937_64 random(static_cast<uint64_t>(t) + 1);
                std::vector<uint64_t> keys(kAtOnce);
                std::vector<rocksdb::Slice> slices(kAtOnce);
                std::vector<rocksdb::Status> states(kAtOnce);
                std::vector<float> out(kAtOnce * kRow / sizeof(float));
                while (now() < began + seconds) {
                    std::vector<rocksdb::PinnableSlice> values(kAtOnce);
                    for (int i = 0; i < kAtOnce; i++) {
                        keys[i] = big_endian(draw(random));
                        slices[i] = rocksdb::Slice(reinterpret_cast<const char *>(&keys[i]), sizeof keys[i]);
                    }
                    db->MultiGet(rocksdb::ReadOptions(), db->DefaultColumnFamily(), kAtOnce, slices.data(), values.data(),
                                 states.data());
                    for (int i = 0; i < kAtOnce; i++) {
                        check(states[i], "reading");
                        std::memcpy(&out[i * kRow / sizeof(float)], values[i].data(), kRow);
                    }
                    pulled += kAtOnce;
                }
            });
        }
        for (auto &thread : all) {
            thread.join();
        }
        const double took = now() - began;
        const auto reads = static_cast<double>(options.statistics->getTickerCount(rocksdb::BLOCK_CACHE_DATA_MISS) - before);
        std::printf("rocksdb %-12s %9.0f rows/s pulled  %9.0f blocks/s read\n", name, static_cast<double>(pulled) / took,
                    reads / took);
    };
    measure("uniform", [&](std::mt19937_64 &random) { return random() % rows; });
    measure("zipf 0.99", [&](std::mt19937_64 &random) {
        constexpr double s = 0.99;
        const double u = static_cast<double>(random() >> 11) * 0x1p-53;
        const double rank = std::pow((std::pow(static_cast<double>(rows), 1 - s) - 1) * u + 1, 1 / (1 - s));
        return static_cast<uint64_t>(rank) * 2654435761U % rows;
    });
    return 0;
}
