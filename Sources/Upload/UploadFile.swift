public import XMPPCore

/// A file to be uploaded.
///
/// ```swift
/// let photo = UploadFile("/home/juliet/balcony.jpg", type: "image/jpeg")
/// ```
///
/// The file is read when it is uploaded, which may be days and several processes later: it must stay where it is and as it
/// is until then. A file of another size, time of modification or inode is not sent.
public struct UploadFile: Hashable, Sendable, Codable {
    /// The path of the file. A relative path is resolved in the working directory of the calling process.
    public var path: String
    /// The name that recipients see, 1 to 255 bytes without a slash.
    public var name: String
    /// The media type, such as `image/jpeg`; nil to say none.
    public var type: String?

    /// Describes a file.
    ///
    /// - Parameters:
    ///   - path: Where it is.
    ///   - name: What recipients see; nil for the last part of the path.
    ///   - type: The media type, such as `image/jpeg`; nil to say none.
    public init(_ path: String, name: String? = nil, type: String? = nil) {
        self.path = path
        self.name = name ?? path.split(separator: "/").last.map(String.init) ?? ""
        self.type = type
    }

    static let longestName = 255
    static let longestType = 127

    /// - Throws: ``UploadError`` `invalidFile`.
    func check() throws(UploadError) {
        guard (1...Self.longestName).contains(name.utf8.count), !name.utf8.contains(UInt8(ascii: "/")),
            name.unicodeScalars.allSatisfy({ $0.value >= 0x20 && ![0xFFFE, 0xFFFF].contains($0.value) })
        else {
            throw UploadError(
                .invalidFile, "'\(name)' is no name of a file; give one of 1 to 255 bytes without a slash")
        }
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw UploadError(.invalidFile, "a file without a path cannot be uploaded; give its path")
        }
        let isWritable = { (type: String) in
            (1...Self.longestType).contains(type.utf8.count)
                && type.utf8.allSatisfy { (0x20...0x7E).contains($0) }
        }
        guard type.map(isWritable) ?? true else {
            throw UploadError(
                .invalidFile, "'\(type ?? "")' is no media type; give one such as image/jpeg, or none")
        }
    }
}

/// Names an upload from its start to its end, in every process.
///
/// ```swift
/// let id = try await account.perform { try account.uploads.send(photo, to: romeo, in: $0) }
/// for await event in account.events(of: UploadEvent.self) where event.upload == id { … }
/// ```
public struct UploadID: PrintedRawValue, RawRepresentable, Hashable, Sendable, Codable,
    CustomStringConvertible
{
    public let rawValue: Int64
    public init(rawValue: Int64) { self.rawValue = rawValue }
}
