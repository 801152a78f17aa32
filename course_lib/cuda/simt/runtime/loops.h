// Natural loops of a kernel, from the dynamic control-flow graph: the paths that its threads took. Used by
// requests.cpp.
//
// Nodes are basic blocks, edges are the steps seen. A natural loop belongs to a back edge, from a block to one that
// dominates it. Compilers rotate loops and move blocks, so a jump to a lower address is neither necessary nor
// sufficient.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace simt {

class LoopFinder {
public:
    static constexpr int ROOT = 0;  // precedes the first block of every function
    LoopFinder() { clear(); }
    void clear();
    int node(uint32_t code) {  // of a basic block, by its code address
        return code < by_code_.size() && by_code_[code] >= 0 ? by_code_[code] : new_node(code);
    }
    void edge(int from, int to) {  // called for every basic block executed, and mostly with the same successor
        if (last_successor_[static_cast<size_t>(from)] != to) add_edge(from, to);
    }
    void update();  // finds the loops again when there are new edges
    // The innermost loop of a node, -1: none. Loops are named by their header.
    int loop_of(int node) const { return loop_of_[static_cast<size_t>(node)]; }
    bool is_header(int node) const { return header_[static_cast<size_t>(node)]; }
    unsigned depth(int loop) const { return loop < 0 ? 0 : depth_[static_cast<size_t>(loop)]; }

private:
    int new_node(uint32_t code);
    void add_edge(int from, int to);
    void order_nodes();
    void find_dominators();
    int common_dominator(int a, int b) const;
    bool dominates(int a, int b) const;
    void find_bodies();
    std::vector<int> by_code_;  // code address -> node, -1: none
    std::vector<std::vector<int>> successors_, predecessors_;
    std::vector<int> last_successor_;  // of each node: a cache for `edge`
    std::vector<int> order_, position_;  // postorder from ROOT; of each node its index there, -1: not reachable
    std::vector<int> dominator_;         // immediate dominator of each node
    std::vector<int> loop_of_;
    std::vector<char> header_;
    std::vector<unsigned> depth_;  // of the loop with this header; 1: outermost
    bool changed_ = false;
};

}  // namespace simt
