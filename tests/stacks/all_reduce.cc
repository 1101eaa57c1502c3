// SPDX-License-Identifier: MIT OR Apache-2.0
// Gloo's all-reduces over its ibverbs transport: all_reduce RANK SIZE DIRECTORY
// Each rank checks every element of every result, for lengths of one element to a megabyte.
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

// Gloo refuses to end an algorithm whose last notification is sent but not yet completed, and its
// algorithms do not wait for that: they are kept.
static std::vector<std::shared_ptr<gloo::Algorithm>> kept;

template <typename Algorithm>
static void reduces(const std::shared_ptr<gloo::Context>& context, const char* name) {
    for (int count : {1, 100, 5000, 262144}) {
        auto& data = *new std::vector<int>(count);
        auto algorithm = std::make_shared<Algorithm>(context, std::vector<int*>{data.data()}, count);
        kept.push_back(algorithm);
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < count; i++) data[i] = (context->rank + 1) * (i + round);
            algorithm->run();
            int ranks = context->size * (context->size + 1) / 2;
            for (int i = 0; i < count; i++) {
                if (data[i] != ranks * (i + round)) {
                    std::printf("FAILED %s of %d: element %d is %d\n", name, count, i, data[i]);
                    std::exit(1);
                }
            }
        }
    }
}

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    auto device = gloo::transport::ibverbs::CreateDevice({"bellwire0", 1, 0});
    auto store = gloo::rendezvous::FileStore(argv[3]);
    auto context = std::make_shared<gloo::rendezvous::Context>(std::atoi(argv[1]), std::atoi(argv[2]));
    context->connectFullMesh(store, device);
    reduces<gloo::AllreduceRing<int>>(context, "ring");
    reduces<gloo::AllreduceRingChunked<int>>(context, "chunked ring");
    reduces<gloo::AllreduceHalvingDoubling<int>>(context, "halving and doubling");
    // No rank ends before all have their results.
    store.set(std::string("done-") + argv[1], {1});
    std::vector<std::string> done;
    for (int rank = 0; rank < context->size; rank++) done.push_back("done-" + std::to_string(rank));
    store.wait(done);
    std::printf("all well\n");
    std::fflush(stdout);
    std::_Exit(0);
}
