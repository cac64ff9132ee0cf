// Darwin has no /proc.
#if !canImport(Darwin)
    import Glibc

    /// A file under /proc.
    package enum KernelFile {
        /// Returns the whole text; empty where there is no such file.
        ///
        /// Such files have no size and are given a page at a time; Foundation's readers end at the first page that is not full.
        package static func text(_ path: String) -> String {
            guard let file = fopen(path, "re") else { return "" }
            defer { fclose(file) }
            var bytes: [UInt8] = []
            var page = [UInt8](repeating: 0, count: 16_384)
            while true {
                let count = fread(&page, 1, page.count, file)
                guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
                bytes += page[..<count]
            }
        }
    }
#endif
