// The loops of a kernel, found in the paths that its threads took.
//
// Nodes are basic blocks, edges are the steps seen. A loop is natural: an edge back to a block that dominates its start.
// Compilers rotate loops and move blocks, so addresses alone would not tell.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace simt {

class LoopFinder {
public:
    static constexpr int ROOT = 0;  // stands before the first block of every function
    LoopFinder() { clear(); }
    void clear();
    int node(uint32_t code) {  // the node of a basic block
        return code < by_code_.size() && by_code_[code] >= 0 ? by_code_[code] : new_node(code);
    }
    void edge(int from, int to) {
        if (last_successor_[static_cast<size_t>(from)] != to) slow_edge(from, to);
    }
    void update();                     // finds the loops again, when there are new edges
    int loop_of(int node) const { return loop_of_[static_cast<size_t>(node)]; }  // innermost, -1: none; loops are named by their header
    bool is_header(int node) const { return header_[static_cast<size_t>(node)]; }
    unsigned depth(int loop) const { return loop < 0 ? 0 : depth_[static_cast<size_t>(loop)]; }

private:
    int new_node(uint32_t code);
    void slow_edge(int from, int to);
    void find_dominators();
    bool dominates(int a, int b) const;
    void find_bodies();
    std::vector<int> by_code_;  // code address -> node, -1: none
    std::vector<std::vector<int>> successors_, predecessors_;
    std::vector<int> last_successor_;  // of each node, the edge seen last
    std::vector<int> order_, position_, dominator_, loop_of_;
    std::vector<char> header_;
    std::vector<unsigned> depth_;
    bool changed_ = false;
};

}  // namespace simt
