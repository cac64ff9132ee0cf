#if DEBUG  // failpoints exist in debug builds only
    import Glibc
    import Handlers
    import TestServers
    import TestSupport
    import TestThreads
    import Testing

    @testable import HandlersPostgres

    /// Moves whose process is killed.
    @Suite(.serialized, .ownThread, .timeLimit(.minutes(3))) struct InterruptedMoveTests {
        private static let failpoints: [MoveFailpoint] = [
            .begun, .marked, .copied, .verified, .committed, .retired,
        ]

        /// Opens a place that must have the store.
        private func expectOpens(_ place: StoreMove.Place) throws {
            #expect(try MoveScene.open(place).texts().count == 301)
        }

        private func kill(
            _ source: StoreMove.Place, _ target: StoreMove.Place, at failpoint: MoveFailpoint,
            undoing: Bool = false
        ) async {
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [
                    source = source.text as String, target = target.text as String,
                    // In the middle of the rows.
                    name = "\(failpoint.rawValue):kill:\(failpoint == .copied ? 150 : 1)" as String,
                    undoing = undoing as Bool
                ] in
                setenv("HANDLERS_FAILPOINT", name, 1)
                let move = MoveScene.move(.init(text: source), .init(text: target))
                if undoing { try move.undo() } else { try move.run() }
            }
        }

        @Test(
            "G8 a move that is killed anywhere leaves at most one place that opens, and is completed when it is run again",
            arguments: failpoints, [true, false])
        func runAgain(_ failpoint: MoveFailpoint, toServer: Bool) async throws {
            let scene = try MoveScene()
            let (source, target) = toServer ? (scene.file, scene.server) : (scene.server, scene.file)
            try MoveScene.fill(source)
            let before = try MoveScene.contents(MoveScene.open(source))
            await kill(source, target, at: failpoint)
            switch failpoint {
            case .begun: try expectOpens(source)
            case .marked, .copied, .verified:
                let error = failure { _ = try MoveScene.open(source) }
                #expect(error?.code == .databaseMoved)
                #expect(error?.message.contains("run it again, or undo it") == true)
            default:
                #expect(failure { _ = try MoveScene.open(source) }?.code == .databaseMoved)
                try expectOpens(target)
            }
            if failpoint == .retired {
                #expect(failure { try MoveScene.move(source, target).run() }?.code == .databaseMoved)
            } else {
                let summary = try MoveScene.move(source, target).run()
                #expect(summary.wasCompleted == (failpoint == .committed))
            }
            #expect(try MoveScene.contents(MoveScene.open(target)) == before)
            #expect(failure { _ = try MoveScene.open(source) }?.message.contains("was moved to") == true)
        }

        @Test(
            "G8 a move that was killed is undone as long as the target has nothing, and also when that is killed",
            arguments: failpoints, [true, false])
        func undone(_ failpoint: MoveFailpoint, toServer: Bool) async throws {
            let scene = try MoveScene()
            let (source, target) = toServer ? (scene.file, scene.server) : (scene.server, scene.file)
            try MoveScene.fill(source)
            await kill(source, target, at: failpoint)
            let move = MoveScene.move(source, target)
            switch failpoint {
            case .begun: #expect(failure { try move.undo() }?.code == .databaseForeign)
            case .marked, .copied, .verified:
                await kill(source, target, at: .undoing, undoing: true)
                #expect(failure { _ = try MoveScene.open(source) }?.code == .databaseMoved)
                // Only with the target that is named in the mark.
                let other = MoveScene.move(source, .file(scene.folder.path + "/other.db"))
                #expect(failure { try other.undo() }?.code == .databaseMoved)
                #expect(failure { try other.run() }?.code == .databaseMoved)
                try move.undo()
            default:
                #expect(failure { try move.undo() }?.code == .databaseMoved)
                return try expectOpens(target)
            }
            try expectOpens(source)
            // And then it is moved after all.
            try move.run()
            try expectOpens(target)
        }

        @Test("G8 a program with newer tables does not bring a store up to date that is being moved")
        func newerProgram() async throws {
            let scene = try MoveScene()
            try MoveScene.fill(scene.file)
            await kill(scene.file, scene.server, at: .marked)
            let newer = Schema(module: "notes", migrations: notes.migrations + ["CREATE TABLE more(a TEXT)"])
            #expect(
                failure { _ = try MoveScene.open(scene.file, schemas: [newer, kinds]) }?.code
                    == .databaseMoved)
            try MoveScene.move(scene.file, scene.server).run()
        }
    }

    extension StoreMove.Place {
        fileprivate init(text: String) { self = text.hasPrefix("/") ? .file(text) : .postgres(text) }

        fileprivate var text: String {
            switch self {
            case .file(let path): path
            case .postgres(let settings): settings
            }
        }
    }
#endif
