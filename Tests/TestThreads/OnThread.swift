import Foundation

/// Runs something that blocks on a thread of its own: the pool of Swift's tasks has only as many as the machine has cores.
public func onThread<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
        Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
}
