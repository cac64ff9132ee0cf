import CPostgres
import Handlers

/// A statement that a connection has prepared.
final class PostgresStatement {
    /// Its common text.
    let sql: String
    /// Its name on the connection.
    let name: String
    let kind: PostgresText.Kind
    let parameters: [Oid]

    init(_ sql: String, name: String, kind: PostgresText.Kind, parameters: [Oid]) {
        (self.sql, self.name, self.kind, self.parameters) = (sql, name, kind, parameters)
    }

    /// Brings values into the binary forms of the types that the statement takes.
    ///
    /// - Throws: ``HandlerError`` with code `sql` for a value of another type: PostgreSQL would convert some and refuse others.
    func encode(_ values: [SQLValue]) throws(HandlerError) -> PostgresValues {
        guard values.count == parameters.count else {
            throw HandlerError(
                .sql,
                "the statement '\(sql)' has \(parameters.count) parameters, but \(values.count) values were given"
            )
        }
        var encoded = PostgresValues()
        for (index, value) in values.enumerated() {
            try encoded.append(isNull: value == .null) { (bytes) throws(HandlerError) in
                try append(value, index, to: &bytes)
            }
        }
        return encoded
    }

    /// - Returns: Whether the value is in its binary form.
    private func append(_ value: SQLValue, _ index: Int, to bytes: inout [UInt8]) throws(HandlerError) -> Bool
    {
        func add<I: FixedWidthInteger>(_ integer: I) {
            withUnsafeBytes(of: integer.bigEndian) { bytes.append(contentsOf: $0) }
        }
        switch (value, PostgresType(rawValue: parameters[index])) {
        case (.null, _): break
        case (.integer(let integer), .int8): add(integer)
        case (.integer(let integer), .int4): add(try narrowed(integer, index) as Int32)
        case (.integer(let integer), .int2): add(try narrowed(integer, index) as Int16)
        case (.integer(let integer), .bool) where integer == 0 || integer == 1: bytes.append(UInt8(integer))
        case (.integer(let integer), .numeric):
            bytes.append(contentsOf: String(integer).utf8)
            return false
        case (.real(let real), _) where real.isNaN:
            throw SQLValue.refusalOfNaN(place: index + 1, of: sql)
        case (.real(let real), .float8): add(real.bitPattern)
        case (.real(let real), .float4): add(Float(real).bitPattern)
        case (.text(let text), .text), (.text(let text), .varchar), (.text(let text), .unknown),
            (.text(let text), .name), (.text(let text), .char):
            guard !text.utf8.contains(0) else {
                throw SQLValue.refusalOfNUL(place: index + 1, of: sql)
            }
            bytes.append(contentsOf: text.utf8)
        case (.blob(let blob), .bytea): bytes.append(contentsOf: blob)
        default:
            throw HandlerError(
                .sql,
                "value \(index + 1) of '\(sql)' is \(Self.name(of: value)), and the statement takes \(typeName(index)); convert it first"
            )
        }
        return true
    }

    private func narrowed<I: FixedWidthInteger>(_ integer: Int64, _ index: Int) throws(HandlerError) -> I {
        guard let narrowed = I(exactly: integer) else {
            throw HandlerError(
                .sql,
                "value \(index + 1) of '\(sql)' is \(integer), and the statement takes \(typeName(index)); CAST the column or the placeholder to BIGINT"
            )
        }
        return narrowed
    }

    private func typeName(_ index: Int) -> String {
        PostgresType(rawValue: parameters[index]).map { "\($0)" } ?? "type \(parameters[index])"
    }

    private static func name(of value: SQLValue) -> String {
        switch value {
        case .null: "NULL"
        case .integer: "an integer"
        case .real: "a floating-point number"
        case .text: "a text"
        case .blob: "bytes"
        }
    }
}

/// Encoded values, one after the other.
struct PostgresValues {
    private var bytes: [UInt8] = []
    private var places: [Range<Int>?] = []
    private var lengths: [Int32] = []
    private var formats: [Int32] = []

    init() {}

    /// The bytes of all.
    var count: Int { bytes.count }

    /// - Parameter add: Adds the bytes, and returns whether they are in the binary form.
    mutating func append(
        isNull: Bool, _ add: (inout [UInt8]) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        let start = bytes.count
        formats.append(try add(&bytes) ? 1 : 0)
        places.append(isNull ? nil : start..<bytes.count)
        lengths.append(Int32(clamping: bytes.count - start))
        // So ends a value in the form of text.
        bytes.append(0)
    }

    func withPointers<R>(
        _ body: (_ values: [UnsafePointer<CChar>?], _ lengths: [Int32], _ formats: [Int32]) -> R
    ) -> R {
        bytes.withUnsafeBytes { buffer in
            let pointers = places.map { place in
                place.flatMap {
                    buffer.baseAddress?.advanced(by: $0.lowerBound).assumingMemoryBound(to: CChar.self)
                }
            }
            return body(pointers, lengths, formats)
        }
    }
}
