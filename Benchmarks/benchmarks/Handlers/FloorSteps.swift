import BenchmarkHandlers
import CFloor
import Handlers

/// The steps as a C program makes them.
final class FloorSteps: Steps {
    private let store: OpaquePointer
    private let arguments: [UInt8]
    private var oldest = 1

    /// - Parameter path: A file whose tables our store made.
    init(_ path: String, pending: Int) throws {
        guard let store = floor_open(path) else {
            throw BenchmarkError("SQLite could not open \(path) from C")
        }
        self.store = store
        arguments = try Advance.numbered(1).durable.arguments
        let code = floor_fill(store, Advance.id, arguments, Int32(arguments.count), Int32(pending))
        if code != 0 { throw failure }
    }

    deinit { floor_close(store) }

    func step(_ group: Int) throws {
        let code = floor_step(
            store, Advance.id, arguments, Int32(arguments.count), Int64(oldest), Int32(group))
        if code != 0 { throw failure }
        oldest += group
    }

    private var failure: BenchmarkError {
        BenchmarkError("the C floor failed: \(String(cString: floor_error(store)))")
    }
}
