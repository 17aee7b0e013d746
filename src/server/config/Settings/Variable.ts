import { Result } from "effect"

/**
 * Decodes the text of a variable. Fails with the rest of a sentence that starts with the variable's name (`must be …`), on one line. The
 * reader of a secret never repeats the text.
 */
export type Reader<A> = (text: string) => Result.Result<A, string>

/** One environment variable: its documentation and its reader. */
export interface Variable<A> {
  /** The effect of the variable, as a phrase or a few short sentences without a final period. */
  readonly description: string
  /** The unit or format of the value. */
  readonly unit: string
  /** The default, in words. */
  readonly defaultText: string
  /** Whether its value must never be shown. */
  readonly secret: boolean
  readonly read: Reader<A>
  /** The decoded value if it is unset. */
  readonly fallback: A
}

interface VariableOptions<A> {
  readonly description: string
  readonly unit: string
  readonly read: Reader<A>
}

/** A variable with a default, given as the text of the variable. */
export const withDefault = <A>(text: string, facts: VariableOptions<A>): Variable<A> => ({
  ...facts,
  secret: false,
  defaultText: text,
  fallback: Result.getOrThrowWith(facts.read(text), (fault) => new Error(`The default "${text}" ${fault}`))
})

/** A variable that decodes to undefined if it is unset. */
export const optional = <A>(
  facts: VariableOptions<A> & { readonly defaultText?: string }
): Variable<A | undefined> => ({
  defaultText: "unset",
  ...facts,
  secret: false,
  fallback: undefined
})

/** An optional variable whose value is never shown. */
export const secret = <A>(
  facts: VariableOptions<A> & { readonly defaultText?: string }
): Variable<A | undefined> => ({
  ...optional(facts),
  secret: true
})
