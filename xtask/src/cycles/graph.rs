//! A small directed graph and the cycles in it.

use std::collections::{BTreeSet, VecDeque};

pub struct Graph {
    targets: Vec<Vec<usize>>,
}

impl Graph {
    pub fn new(nodes: usize, edges: &BTreeSet<(usize, usize)>) -> Self {
        let mut targets = vec![Vec::new(); nodes];
        for &(from, to) in edges {
            targets[from].push(to);
        }
        Self { targets }
    }

    /// For each group of nodes that reach one another: the shortest way from its first node back to itself.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let reach: Vec<BTreeSet<usize>> = (0..self.targets.len()).map(|node| self.reachable(node)).collect();
        let mut seen = BTreeSet::new();
        let mut cycles = Vec::new();
        for node in 0..self.targets.len() {
            if !reach[node].contains(&node) || !seen.insert(node) {
                continue;
            }
            seen.extend(reach[node].iter().filter(|&&other| reach[other].contains(&node)));
            cycles.extend(self.way_back(node));
        }
        cycles
    }

    fn reachable(&self, from: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open = self.targets[from].clone();
        while let Some(node) = open.pop() {
            if found.insert(node) {
                open.extend(&self.targets[node]);
            }
        }
        found
    }

    fn way_back(&self, start: usize) -> Option<Vec<usize>> {
        let mut came_from = vec![None; self.targets.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if self.targets[node].contains(&start) {
                let mut way = vec![node];
                let mut at = node;
                while at != start {
                    at = came_from[at]?;
                    way.push(at);
                }
                way.reverse();
                return Some(way);
            }
            for &next in &self.targets[node] {
                if next != start && came_from[next].is_none() {
                    came_from[next] = Some(node);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}
