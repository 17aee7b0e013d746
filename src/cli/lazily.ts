import { Effect } from "effect"

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
    Effect.flatMap(Effect.promise(load), (handler) => handler(...args))
