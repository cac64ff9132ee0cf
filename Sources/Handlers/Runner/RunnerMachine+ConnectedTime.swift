/// The connected time of scopes: it runs in this process with the first runner that runs for one, and stops with the last.
extension RunnerMachine {
    /// Counts a scope as connected for a runner.
    ///
    /// - Returns: Whether its time is to be started.
    mutating func connect(_ scope: HandlerScope?, _ id: RunnerID) -> Bool {
        guard runners[id]?.connected.insert(scope).inserted == true, runners[id]?.runs == true else {
            return false
        }
        return count(scope)
    }

    /// Counts a scope as connected no longer.
    ///
    /// - Returns: Whether its time is to be stopped.
    mutating func disconnect(_ scope: HandlerScope?, _ id: RunnerID) -> Bool {
        guard runners[id]?.connected.remove(scope) != nil, runners[id]?.runs == true else { return false }
        return uncount(scope)
    }

    /// Has the connected times of a runner run, which calls what is due from now on.
    ///
    /// - Returns: The scopes whose time is to be started; nil when it runs already.
    mutating func launch(_ id: RunnerID) -> Set<HandlerScope?>? {
        guard let runner = runners[id], !runner.runs else { return nil }
        runners[id]?.runs = true
        runners[id]?.connected.insert(nil)
        return (runners[id]?.connected ?? []).filter { count($0) }
    }

    /// Stops the connected times of a runner.
    ///
    /// - Returns: The scopes whose time is to be stopped.
    @discardableResult
    mutating func halt(_ id: RunnerID) -> Set<HandlerScope?> {
        guard let runner = runners[id], runner.runs else { return [] }
        runners[id]?.runs = false
        return runner.connected.filter { uncount($0) }
    }

    /// The scopes whose time runs.
    var connectedScopes: [HandlerScope?] { Array(connected.keys) }

    /// - Returns: Whether it is the first runner of the scope.
    private mutating func count(_ scope: HandlerScope?) -> Bool {
        connected[scope, default: 0] += 1
        return connected[scope] == 1
    }

    /// - Returns: Whether it was the last runner of the scope.
    private mutating func uncount(_ scope: HandlerScope?) -> Bool {
        connected[scope, default: 1] -= 1
        guard connected[scope] == 0 else { return false }
        connected[scope] = nil
        return true
    }
}
