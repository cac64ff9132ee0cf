import CPostgres
import Handlers

/// The result of one command.
final class PostgresResult {
    private let result: OpaquePointer

    /// Takes the result over.
    init(owning result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    var status: ExecStatusType { PQresultStatus(result) }

    var error: PostgresError? {
        guard status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE else { return nil }
        func field(_ code: Int32) -> String? { PQresultErrorField(result, code).map { String(cString: $0) } }
        return PostgresError(
            state: field(dh_pq_error_state) ?? "",
            message: field(dh_pq_error_message) ?? String(cString: PQresultErrorMessage(result)).trimmed,
            table: field(dh_pq_error_table))
    }

    /// The name of the command: `COMMIT`, `INSERT`.
    var command: Substring { String(cString: PQcmdStatus(result)).prefix { $0 != " " } }

    /// The number of rows that the command has changed; 0 for one that changes none by its nature.
    var changedRows: Int {
        switch command {
        case "INSERT", "UPDATE", "DELETE", "MERGE": Int(String(cString: PQcmdTuples(result))) ?? 0
        default: 0
        }
    }

    var rowCount: Int32 { PQntuples(result) }

    /// The types of a prepared statement's parameters.
    var parameterTypes: [Oid] { (0..<PQnparams(result)).map { PQparamtype(result, $0) } }

    /// - Throws: ``HandlerError`` with code `sql` for a type that is no storage class of the store.
    func row(_ row: Int32, of sql: String) throws(HandlerError) -> [SQLValue] {
        var values: [SQLValue] = []
        let columns = PQnfields(result)
        values.reserveCapacity(Int(columns))
        for column in 0..<columns { values.append(try value(row, column, of: sql)) }
        return values
    }

    private func value(_ row: Int32, _ column: Int32, of sql: String) throws(HandlerError) -> SQLValue {
        if PQgetisnull(result, row, column) == 1 { return .null }
        let bytes = UnsafeRawBufferPointer(
            start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
        switch PostgresType(rawValue: PQftype(result, column)) {
        case .void: return .null
        case .bool: return .integer(bytes.first == 1 ? 1 : 0)
        case .int2, .int4, .int8:
            // Sign-extended from its first byte.
            let start: Int64 = (bytes.first ?? 0) & 0x80 == 0 ? 0 : -1
            return .integer(bytes.reduce(start) { $0 << 8 | Int64($1) })
        case .float4:
            return .real(Double(Float(bitPattern: UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))))
        case .float8:
            return .real(Double(bitPattern: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))))
        case .text, .varchar, .char, .name, .unknown: return .text(String(decoding: bytes, as: UTF8.self))
        case .bytea: return .blob(Array(bytes))
        case .numeric:
            if let number = Self.integer(numeric: bytes) { return .integer(number) }
            fallthrough
        case nil:
            throw HandlerError(
                .sql,
                "column \(column) of '\(sql)' has a type that a store does not read; CAST it to BIGINT, DOUBLE PRECISION, TEXT or BYTEA"
            )
        }
    }

    /// A whole number in the binary form of `numeric`, as sums have; nil for one with a fraction or beyond 64 bits.
    private static func integer(numeric bytes: UnsafeRawBufferPointer) -> Int64? {
        func word(_ index: Int) -> Int16 {
            Int16(bigEndian: bytes.loadUnaligned(fromByteOffset: index * 2, as: Int16.self))
        }
        guard bytes.count >= 8 else { return nil }
        let (count, weight, sign) = (Int(word(0)), Int(word(1)), word(2))
        guard bytes.count >= 8 + count * 2, count <= weight + 1, weight < 5 else { return nil }
        var value: Int64 = 0
        for index in 0..<max(0, weight + 1) {
            let digit = index < count ? Int64(word(4 + index)) : 0
            let (product, isOver) = value.multipliedReportingOverflow(by: 10_000)
            let (sum, isOverToo) = product.addingReportingOverflow(digit)
            if isOver || isOverToo { return nil }
            value = sum
        }
        return switch sign {
        case 0: value
        case 0x4000: -value
        default: nil
        }
    }
}

/// The types that a store reads and writes, by their numbers, which are the same in every server.
enum PostgresType: Oid {
    case bool = 16
    case bytea = 17
    case char = 18
    case name = 19
    case int8 = 20
    case int2 = 21
    case int4 = 23
    case text = 25
    case float4 = 700
    case float8 = 701
    case unknown = 705
    case varchar = 1043
    case numeric = 1700
    case void = 2278
}

extension String {
    /// Without the newline at the end that libpq gives its messages.
    var trimmed: String { String(reversed().drop { $0.isNewline || $0 == " " }.reversed()) }
}
