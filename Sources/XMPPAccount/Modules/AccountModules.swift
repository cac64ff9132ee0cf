/// The modules of this library.
///
/// ```swift
/// configuration.modules = AccountModules.standard + [MyModule()]
/// ```
public enum AccountModules {
    /// All of them; their tables are part of ``Account/schemas``.
    static let all: [any AccountModule.Type] = [
        DiscoModule.self, RosterModule.self, BlockingModule.self, CarbonsModule.self, ChatModule.self,
        ArchiveModule.self, RoomsModule.self, PushModule.self,
    ]

    /// What a messenger needs, as most of them want it.
    public static var standard: [any AccountModule] {
        [
            DiscoModule(), RosterModule(), BlockingModule(), CarbonsModule(), ChatModule(), ArchiveModule(),
            RoomsModule(), PushModule(),
        ]
    }
}

extension Array where Element == any AccountModule {
    /// What a messenger needs; see ``AccountModules/standard``.
    public static var standard: [any AccountModule] { AccountModules.standard }
}
