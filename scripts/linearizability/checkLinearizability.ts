import { isLost, type Operation } from "./Operation.ts"
import type { Model } from "./Model.ts"

/** Whether the operations of an object can have taken effect one at a time, each between its call and its answer. */
export type Verdict<Call> =
  | {
      readonly _tag: "Linearizable"
      readonly order: ReadonlyArray<Operation<Call>>
      readonly visited: number
    }
  /** No order explains the answers. `longest` is the longest order that does, as far as it goes. */
  | { readonly _tag: "Violation"; readonly longest: ReadonlyArray<Operation<Call>>; readonly visited: number }
  /** The search was given up at its limit. */
  | { readonly _tag: "Undecided"; readonly visited: number }

/** Configurations that a check visits at most; each takes about 200 bytes. */
const MAX_CONFIGURATIONS = 300_000

/**
 * Searches an order of the operations of one object that its model accepts: the algorithm of Wing and Gong (1993) with
 * the memoization of Lowe (2017), as Porcupine uses it.
 *
 * The search places one operation after the other. The next one can be any that was called before the first answer
 * among those that are not placed yet. A configuration, the set of placed operations and the state after them, is
 * visited once. Operations whose answer was lost need not be placed.
 *
 * A read that is possible in the current state is placed at once and for good: it changes nothing, so an order in which
 * it comes later remains an order if it comes now.
 */
export const checkLinearizability = <State, Call>(
  model: Model<State, Call>,
  recorded: ReadonlyArray<Operation<Call>>,
  maxConfigurations = MAX_CONFIGURATIONS
): Verdict<Call> => {
  // A read without an answer neither changes nor shows anything.
  const operations = recorded.filter((operation) => !(isLost(operation) && model.isRead(operation)))
  const history = makeHistory(operations)
  const visited = new Set<string>()
  const placed = new Uint8Array(Math.ceil(operations.length / 8))
  const path: Array<Step<State>> = []
  let longest: ReadonlyArray<number> = []
  let state = model.initial
  let unanswered = operations.filter((operation) => !isLost(operation)).length

  const at = (index: number): Operation<Call> => {
    const operation = operations[index]
    if (operation === undefined) throw new RangeError(`No operation ${index}`)
    return operation
  }
  const configuration = (next: State) => `${Buffer.from(placed).toString("latin1")}${model.key(next)}`
  const toggle = (index: number) => {
    placed[index >> 3] = (placed[index >> 3] ?? 0) ^ (1 << (index & 7))
  }

  const place = (index: number, next: State, isFinal: boolean): void => {
    path.push({ index, before: state, isFinal })
    state = next
    history.remove(index)
    if (!isLost(at(index))) unanswered--
    if (path.length > longest.length) longest = path.map((step) => step.index)
  }

  /** Takes the last operation back and returns it. */
  const takeBack = (): Step<State> | undefined => {
    const step = path.pop()
    if (step === undefined) return undefined
    toggle(step.index)
    state = step.before
    history.restore(step.index)
    if (!isLost(at(step.index))) unanswered++
    return step
  }

  /** Places the reads that are possible now, of those that can be next. */
  const placeReads = (): void => {
    for (let index = history.firstCall(); index !== undefined;) {
      const following = history.callAfter(index)
      const operation = at(index)
      if (!isLost(operation) && model.isRead(operation) && model.apply(state, operation) !== undefined) {
        toggle(index)
        place(index, state, true)
        // Without its answer, further calls can be next.
        index = history.firstCall()
      } else index = following
    }
  }

  placeReads()
  let candidate = history.firstCall()
  const isDone = () => unanswered === 0
  while (!isDone()) {
    if (candidate === undefined) {
      // None of the operations that can be next leads anywhere: continue behind the last choice.
      let step = takeBack()
      while (step?.isFinal === true) step = takeBack()
      if (step === undefined) {
        return { _tag: "Violation", longest: longest.map(at), visited: visited.size }
      }
      candidate = history.callAfter(step.index)
      continue
    }
    const next = model.apply(state, at(candidate))
    // An operation that need not be placed is of no use where it changes nothing.
    if (next !== undefined && !(isLost(at(candidate)) && model.key(next) === model.key(state))) {
      toggle(candidate)
      const key = configuration(next)
      if (!visited.has(key)) {
        if (visited.size >= maxConfigurations) return { _tag: "Undecided", visited: visited.size }
        visited.add(key)
        place(candidate, next, false)
        placeReads()
        candidate = history.firstCall()
        continue
      }
      toggle(candidate)
    }
    candidate = history.callAfter(candidate)
  }
  return { _tag: "Linearizable", order: path.map(({ index }) => at(index)), visited: visited.size }
}

/** A placed operation, and the state before it. `isFinal`: no other choice has to be tried in its place. */
interface Step<State> {
  readonly index: number
  readonly before: State
  readonly isFinal: boolean
}

/** The calls and answers that are not placed yet, in the order of their times, as a doubly linked list. */
interface History {
  /** The first call, if no answer comes before it. */
  readonly firstCall: () => number | undefined
  /** The call after this one, if no answer comes between. Also for an operation that has just been restored. */
  readonly callAfter: (index: number) => number | undefined
  readonly remove: (index: number) => void
  /** Operations are restored in the opposite order of their removal. */
  readonly restore: (index: number) => void
}

const makeHistory = (operations: ReadonlyArray<Operation<unknown>>): History => {
  interface Entry {
    readonly index: number
    readonly isCall: boolean
    readonly time: number
    previous: Entry | undefined
    next: Entry | undefined
  }
  const entries = operations
    .flatMap(({ answeredAt, invokedAt, ...operation }, index): ReadonlyArray<Entry> => {
      const entry = (isCall: boolean, time: number): Entry => ({
        index,
        isCall,
        time,
        previous: undefined,
        next: undefined
      })
      return isLost(operation) ? [entry(true, invokedAt)] : [entry(true, invokedAt), entry(false, answeredAt)]
    })
    // At the same time calls come first: operations that touch each other can be in either order.
    .toSorted((a, b) => a.time - b.time || Number(b.isCall) - Number(a.isCall))
  const calls = new Map<number, Entry>()
  const answers = new Map<number, Entry>()
  let first: Entry | undefined = entries[0]
  for (const [position, entry] of entries.entries()) {
    entry.previous = entries[position - 1]
    entry.next = entries[position + 1]
    ;(entry.isCall ? calls : answers).set(entry.index, entry)
  }

  const unlink = (entry: Entry | undefined): void => {
    if (entry === undefined) return
    if (entry.previous === undefined) first = entry.next
    else entry.previous.next = entry.next
    if (entry.next !== undefined) entry.next.previous = entry.previous
  }
  const link = (entry: Entry | undefined): void => {
    if (entry === undefined) return
    if (entry.previous === undefined) first = entry
    else entry.previous.next = entry
    if (entry.next !== undefined) entry.next.previous = entry
  }
  const callOf = (entry: Entry | undefined) => (entry?.isCall === true ? entry.index : undefined)

  return {
    firstCall: () => callOf(first),
    callAfter: (index) => callOf(calls.get(index)?.next),
    remove: (index) => {
      unlink(calls.get(index))
      unlink(answers.get(index))
    },
    restore: (index) => {
      link(answers.get(index))
      link(calls.get(index))
    }
  }
}
