public import Handlers

/// Opens the store of a benchmark.
public enum BenchmarkStore {
    public static func open(
        _ path: String, _ handlers: [any DurableHandler.Type] = [Advance.self, Waiting.self]
    ) throws -> HandlerStore {
        try HandlerStore(path: path, registry: HandlerRegistry(handlers), schemas: [Advance.schema])
    }
}
