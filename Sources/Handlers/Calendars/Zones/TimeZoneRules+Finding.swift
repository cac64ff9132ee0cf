import Platform
import Synchronization

extension TimeZoneRules {
    /// The most zones that are kept in memory.
    static let mostCached = 64
    /// The longest name of a zone, in bytes.
    static let longestName = 64
    /// The largest file of a zone, in bytes.
    static let largestFile = 1 << 20

    /// One for the process, so that a rule that is read from a row reads no file.
    private static let cache = Mutex<[String: TimeZoneRules]>([:])

    /// Returns the rules of a zone, which are read once in this process.
    ///
    /// - Throws: ``HandlerError`` `invalidCalendar` when the zone is unknown or its file cannot be read.
    static func cached(_ name: String) throws(HandlerError) -> TimeZoneRules {
        if let zone = cache.withLock({ $0[name] }) { return zone }
        let zone = try find(name, in: folders)
        cache.withLock { zones in
            if zones.count >= mostCached, let other = zones.keys.first { zones[other] = nil }
            zones[name] = zone
        }
        return zone
    }

    /// Whether this machine has the rules of a zone.
    static func isKnown(_ name: String) -> Bool { (try? cached(name)) != nil }

    /// Whether another machine may have the rules of a zone: it has a name that a zone can have.
    static func mayBeKnown(_ name: String) -> Bool { (try? checkName(name)) != nil }

    static var cachedCount: Int { cache.withLock { $0.count } }

    /// The folders with time zone databases: the one that `TZDIR` names, or those of Linux and Darwin.
    private static var folders: [String] {
        if let folder = ThisProcess.environment("TZDIR"), !folder.isEmpty { return [folder] }
        return ["/usr/share/zoneinfo", "/var/db/timezone/zoneinfo"]
    }

    /// Reads the rules of a zone from the first folder that has it.
    static func find(_ name: String, in folders: [String]) throws(HandlerError) -> TimeZoneRules {
        try checkName(name)
        if name == "UTC" { return utc }
        for folder in folders {
            if let zone = try read("\(folder)/\(name)") { return zone }
        }
        throw HandlerError(
            .invalidCalendar,
            "the time zone '\(name)' is not in \(folders.joined(separator: " or ")); install the package tzdata, or write a name such as 'Europe/Zurich' or 'UTC'"
        )
    }

    /// Keeps a name from leading out of the folder.
    private static func checkName(_ name: String) throws(HandlerError) {
        let hasOnlyAllowedBytes = name.utf8.allSatisfy {
            0x61...0x7a ~= $0 | 0x20 || 0x2f...0x39 ~= $0 || [0x2b, 0x2d, 0x5f].contains($0)
        }
        let parts = name.split(separator: "/", omittingEmptySubsequences: false)
        guard name.utf8.count <= longestName, hasOnlyAllowedBytes, !parts.contains("") else {
            throw HandlerError(
                .invalidCalendar,
                "the name of a time zone has 1 to \(longestName) letters, digits, '+', '-', '_' and '/' between them; write a name such as 'Europe/Zurich' or 'UTC'"
            )
        }
    }

    /// Returns the rules in a file; nil when there is no such file.
    private static func read(_ path: String) throws(HandlerError) -> TimeZoneRules? {
        do {
            return try contents(of: path).map { try TimeZoneRules(decoding: $0) }
        } catch let error as Errno where error == .noSuchFile || error == .notAFolder {
            return nil
        } catch {
            throw HandlerError(
                .invalidCalendar,
                "the time zone file '\(path)' cannot be used: \(error); install the package tzdata again, or write a name such as 'Europe/Zurich'",
                cause: error)
        }
    }

    private static func contents(of path: String) throws -> [UInt8]? {
        let file = try OpenFile(reading: path)
        let status = try file.status()
        // A folder is a part of a name, such as Europe.
        guard status.kind == .regular else { return nil }
        guard status.size <= largestFile else {
            throw MalformedZone(description: "it has more than \(largestFile) bytes")
        }
        var bytes = [UInt8](repeating: 0, count: Int(status.size))
        let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
        return Array(bytes.prefix(count))
    }
}
