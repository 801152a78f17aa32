// Dominators and natural loops. See loops.h.
// Source: Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001.
#include "loops.h"

#include <algorithm>
#include <map>

namespace simt {

void LoopFinder::clear() {
    by_code_.clear();
    successors_.assign(1, {});
    predecessors_.assign(1, {});
    last_successor_.assign(1, -1);
    loop_of_.assign(1, -1);
    header_.assign(1, 0);
    depth_.assign(1, 0);
    changed_ = true;
}

// A basic block seen for the first time.
int LoopFinder::new_node(uint32_t code) {
    if (code >= by_code_.size()) by_code_.resize(code + 4096, -1);  // grow in steps
    by_code_[code] = static_cast<int>(successors_.size());
    successors_.emplace_back();
    predecessors_.emplace_back();
    last_successor_.push_back(-1);
    loop_of_.push_back(-1);
    header_.push_back(0);
    depth_.push_back(0);
    return by_code_[code];
}

// A step that `edge` has not in its cache; often it is known all the same.
void LoopFinder::add_edge(int from, int to) {
    last_successor_[static_cast<size_t>(from)] = to;
    std::vector<int>& successors = successors_[static_cast<size_t>(from)];
    if (std::find(successors.begin(), successors.end(), to) != successors.end()) return;
    successors.push_back(to);
    predecessors_[static_cast<size_t>(to)].push_back(from);
    changed_ = true;
}

// Depth-first search with an explicit stack; nodes are numbered when their last successor is done.
void LoopFinder::order_nodes() {
    size_t n = successors_.size();
    order_.clear();
    position_.assign(n, -1);
    std::vector<std::pair<int, size_t>> stack{{ROOT, 0}};  // node, index of its next successor
    std::vector<char> seen(n, 0);
    seen[ROOT] = 1;
    while (!stack.empty()) {
        auto& [node, next] = stack.back();
        if (next < successors_[static_cast<size_t>(node)].size()) {
            int to = successors_[static_cast<size_t>(node)][next++];
            if (!seen[static_cast<size_t>(to)]) {
                seen[static_cast<size_t>(to)] = 1;
                stack.emplace_back(to, 0);
            }
        } else {
            position_[static_cast<size_t>(node)] = static_cast<int>(order_.size());
            order_.push_back(node);
            stack.pop_back();
        }
    }
}

// The nearest node that dominates both, as far as dominator_ is known; b may be -1 (unknown). The paper's "intersect".
int LoopFinder::common_dominator(int a, int b) const {
    while (b >= 0 && a != b) {
        while (position_[static_cast<size_t>(a)] < position_[static_cast<size_t>(b)]) a = dominator_[static_cast<size_t>(a)];
        while (position_[static_cast<size_t>(b)] < position_[static_cast<size_t>(a)]) b = dominator_[static_cast<size_t>(b)];
    }
    return a;
}

// Iterates to a fixed point in reverse postorder; a reducible graph needs two rounds.
void LoopFinder::find_dominators() {
    order_nodes();
    dominator_.assign(successors_.size(), -1);
    dominator_[ROOT] = ROOT;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = order_.size(); i-- > 0;) {
            int node = order_[i], best = -1;
            if (node == ROOT) continue;
            for (int from : predecessors_[static_cast<size_t>(node)])
                if (dominator_[static_cast<size_t>(from)] >= 0) best = common_dominator(from, best);
            if (dominator_[static_cast<size_t>(node)] != best) {
                dominator_[static_cast<size_t>(node)] = best;
                moved = true;
            }
        }
    }
}

// True when every path from ROOT to b passes a.
bool LoopFinder::dominates(int a, int b) const {
    while (b != a && b != ROOT) b = dominator_[static_cast<size_t>(b)];
    return b == a;
}

// The body of a loop is its header and every node that reaches the back edge without passing the header. Back edges to
// one header make one loop.
void LoopFinder::find_bodies() {
    std::map<int, std::vector<int>> bodies;  // header -> nodes
    for (int from : order_)
        for (int to : successors_[static_cast<size_t>(from)]) {
            if (to == ROOT || !dominates(to, from)) continue;
            std::vector<int>& body = bodies[to];
            if (body.empty()) body.push_back(to);
            std::vector<int> open{from};  // backwards from the back edge; the header stops the search
            while (!open.empty()) {
                int node = open.back();
                open.pop_back();
                if (std::find(body.begin(), body.end(), node) != body.end()) continue;
                body.push_back(node);
                for (int before : predecessors_[static_cast<size_t>(node)]) open.push_back(before);
            }
        }
    std::fill(loop_of_.begin(), loop_of_.end(), -1);
    std::fill(header_.begin(), header_.end(), 0);
    std::vector<std::pair<size_t, int>> by_size;
    for (const auto& [header, body] : bodies) by_size.emplace_back(body.size(), header);
    std::sort(by_size.rbegin(), by_size.rend());  // outer loops first: inner ones overwrite loop_of_
    for (const auto& [size, header] : by_size) {
        header_[static_cast<size_t>(header)] = 1;
        depth_[static_cast<size_t>(header)] = depth(loop_of_[static_cast<size_t>(header)]) + 1;
        for (int node : bodies[header]) loop_of_[static_cast<size_t>(node)] = header;
    }
}

// Edges are added while threads run; the loops are needed only when a recording is replayed.
void LoopFinder::update() {
    if (!changed_) return;
    changed_ = false;
    find_dominators();
    find_bodies();
}

}  // namespace simt
