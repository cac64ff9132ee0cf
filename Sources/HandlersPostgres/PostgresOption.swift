import CPostgres

/// A setting of libpq with its value.
struct PostgresOption: Hashable, Sendable {
    let name, value: String

    init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }

    /// Lends names and values as libpq takes them. Of settings with one name the last counts.
    static func withPointers<R>(
        _ options: [PostgresOption],
        _ body: (_ names: [UnsafePointer<CChar>?], _ values: [UnsafePointer<CChar>?]) -> R
    ) -> R {
        let texts = options.flatMap { [Array($0.name.utf8CString), Array($0.value.utf8CString)] }
        let starts = texts.reduce(into: [0]) { $0.append($0[$0.count - 1] + $1.count) }
        return Array(texts.joined()).withUnsafeBufferPointer { bytes in
            let pointers = starts.dropLast().map { bytes.baseAddress?.advanced(by: $0) }
            func every(_ first: Int) -> [UnsafePointer<CChar>?] {
                stride(from: first, to: pointers.count, by: 2).map { pointers[$0] } + [nil]
            }
            return body(every(0), every(1))
        }
    }

    /// Returns what libpq would use: of a connection string, its service, the environment and its own defaults. It connects to nothing.
    ///
    /// - Returns: The values by their names; those that are not set are missing.
    static func effective(of settings: String) -> [String: String] {
        // A value that there is not: libpq has read all settings when it refuses it, and looks up no host.
        let options = [PostgresOption("dbname", settings), PostgresOption("target_session_attrs", "none")]
        guard let connection = withPointers(options, { PQconnectStartParams($0, $1, 1) }) else { return [:] }
        defer { PQfinish(connection) }
        return values(PQconninfo(connection))
    }

    /// Returns the values of a list of libpq, which it frees.
    static func values(_ list: UnsafeMutablePointer<PQconninfoOption>?) -> [String: String] {
        defer { PQconninfoFree(list) }
        var (values, next) = ([String: String](), list)
        while let option = next, let keyword = option.pointee.keyword {
            if let value = option.pointee.val { values[String(cString: keyword)] = String(cString: value) }
            next = option + 1
        }
        return values.filter { !$0.value.isEmpty }
    }
}
