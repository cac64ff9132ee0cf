public import Handlers

/// Opens the store of a benchmark.
public enum BenchmarkStore {
    public static func open(_ path: String) throws -> HandlerStore {
        try HandlerStore(
            path: path, registry: HandlerRegistry([Advance.self, Waiting.self, Errand.self, Count.self]),
            schemas: [Advance.schema])
    }
}
