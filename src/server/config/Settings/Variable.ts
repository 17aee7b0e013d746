import { Result } from "effect"

/**
 * Reads a variable's text. Fails with the rest of a sentence whose subject is the variable (`must be …`), on one line. The
 * reader of a secret never repeats what it read.
 */
export type Reader<A> = (text: string) => Result.Result<A, string>

/** One environment variable: what it means to people, and how it is read. */
export interface Variable<A> {
  /** What it does, in a phrase. */
  readonly description: string
  /** What the value counts, or how it is written. */
  readonly unit: string
  /** In words, what holds where it is unset. */
  readonly defaultText: string
  /** Whether its value must not be shown. */
  readonly secret: boolean
  readonly read: Reader<A>
  /** The value where it is unset. */
  readonly fallback: A
}

interface VariableOptions<A> {
  readonly description: string
  readonly unit: string
  readonly read: Reader<A>
}

/** A variable with a default, given as one would write it. */
export const withDefault = <A>(text: string, facts: VariableOptions<A>): Variable<A> => ({
  ...facts,
  secret: false,
  defaultText: text,
  fallback: Result.getOrThrowWith(facts.read(text), (fault) => new Error(`The default "${text}" ${fault}`))
})

/** A variable that may be absent; `unset` says in words what holds then. */
export const optional = <A>(
  facts: VariableOptions<A> & { readonly defaultText?: string }
): Variable<A | undefined> => ({
  defaultText: "unset",
  ...facts,
  secret: false,
  fallback: undefined
})

/** A secret that may be absent. Its value is never shown, and its reader never repeats it. */
export const secret = <A>(
  facts: VariableOptions<A> & { readonly defaultText?: string }
): Variable<A | undefined> => ({
  ...optional(facts),
  secret: true
})
