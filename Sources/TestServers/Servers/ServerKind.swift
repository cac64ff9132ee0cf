package import XMPPTestKit

/// The real servers that this kit can start.
package enum ServerKind: String, CaseIterable, Sendable, CustomStringConvertible {
    case prosody
    case ejabberd

    package var description: String { rawValue }

    /// Returns a server of this kind without starting it.
    ///
    /// - Parameters:
    ///   - folder: An empty or missing folder, or the folder of an earlier server whose data is kept.
    ///   - domain: The domain of the accounts.
    ///   - certificate: The certificate for that domain.
    ///   - prosody: Changes Prosody's options.
    ///   - ejabberd: Changes ejabberd's options.
    /// - Throws: ``TestServerError`` when there is no free port or the folder cannot be written.
    package func makeServer(
        folder: String, domain: String = "localhost", certificate: TestCertificates.ServerCertificate,
        prosody: (inout ProsodyOptions) -> Void = { _ in },
        ejabberd: (inout EjabberdOptions) -> Void = { _ in }
    ) throws(TestServerError) -> any TestServer {
        let (file, key) = (certificate.certificateFile, certificate.keyFile)
        switch self {
        case .prosody:
            var options = ProsodyOptions()
            prosody(&options)
            return try ProsodyServer(
                folder: folder, domain: domain, certificateFile: file, keyFile: key, options: options)
        case .ejabberd:
            var options = EjabberdOptions()
            ejabberd(&options)
            return try EjabberdServer(
                folder: folder, domain: domain, certificateFile: file, keyFile: key, options: options)
        }
    }
}
