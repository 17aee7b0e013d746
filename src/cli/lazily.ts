import { Effect } from "effect"

/** The command needs a module that its package leaves out: `countersign-cli` has no commands that work on the database. */
export class NotInPackage extends Error {
  override readonly name = "NotInPackage"

  constructor(options: ErrorOptions) {
    super(
      "this command needs the whole service: npm install countersign-server, in place of countersign-cli",
      options
    )
  }
}

const isModuleNotFound = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND"

/**
 * The handler of a command, from a module that is loaded when the command runs. A command's own module has only its
 * name, flags and descriptions, so that `countersign --help` and a mistyped flag load neither the server nor the
 * client. `run` reports every failure alike, so its type is not kept.
 */
export const lazily =
  <Args extends ReadonlyArray<unknown>, A, R>(
    load: () => Promise<(...args: Args) => Effect.Effect<A, unknown, R>>
  ): ((...args: Args) => Effect.Effect<A, unknown, R>) =>
  (...args) =>
    Effect.promise(() =>
      load().catch((cause: unknown) => {
        if (!isModuleNotFound(cause)) throw cause
        return new NotInPackage({ cause })
      })
    ).pipe(
      Effect.flatMap((loaded) => (loaded instanceof NotInPackage ? Effect.fail(loaded) : loaded(...args)))
    )
