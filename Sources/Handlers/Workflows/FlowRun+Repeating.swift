import Platform
import Timestamps

/// Values that are the same in each run.
extension FlowRun {
    var now: Timestamp { state.withLock { $0.now } }

    /// Empty for code that goes on after the stop of its run.
    var idempotencyKey: String {
        state.withLock { state in
            if state.stop == nil, state.key == nil, executor.isDriven {
                let key = try? transaction.leases.idempotencyKey(of: workflow)
                state.key = state.base == 0 ? key : key.map { "\($0)-\(state.base)" }
            }
            return state.key ?? ""
        }
    }

    func random<Number: FixedWidthInteger>(in range: ClosedRange<Number>) -> Number {
        let key = idempotencyKey
        var random = state.withLock { $0.random } ?? SplitMix(seed: StableHash(key.utf8).value)
        defer { state.withLock { [random] in $0.random = random } }
        return Number.random(in: range, using: &random)
    }

    func version(_ change: String, _ versions: ClosedRange<Int>) async throws -> Int {
        let operation = Self.operation("version", change)
        let isBefore = state.withLock { state in
            // The operation below says so, where it counts.
            guard state.stop == nil else { return false }
            return state.known(state.position).map { $0.operation != operation } ?? false
        }
        if isBefore, versions.lowerBound > 1 {
            throw stop(
                .failure(
                    misfit("was here before '\(change)' had version 2, and this program cannot run version 1")
                ))
        }
        if isBefore { return versions.lowerBound }
        let value = try await perform("version", change) { _ in
            try HandlerResult(versions.upperBound).bytes
        }
        let version = try ownValue(Int.self, from: value, of: operation.string)
        guard versions.contains(version) else {
            throw stop(
                .failure(
                    misfit(
                        "has version \(version) of '\(change)', and this program can run the versions \(versions.lowerBound) to \(versions.upperBound)"
                    )))
        }
        return version
    }

    /// Reads a value that this workflow has made itself: another type is a change of its code.
    func ownValue<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8], of operation: String) throws
        -> Value
    {
        do { return try HandlerResult.value(type, from: bytes, of: operation) } catch {
            throw stop(
                .failure(
                    misfit(
                        "has a value of 'step \(operation)' that is no \(type); bring back the code that wrote it, or ask flow.version where it changed"
                    )))
        }
    }
}
