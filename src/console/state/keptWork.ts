/**
 * Typed work that is not saved yet, such as an edited task: it survives another page, a reload, and a session that ended. Kept in this tab, apart
 * for each API key of an organization. Never give it secrets: the browser stores it as text.
 */
import { Option, Schema } from "effect"
import { useState } from "react"
import { useSession, WORK_KEY } from "./session.ts"

/** The most characters that are stored, and the most pieces. The oldest one gives way; it lasts until the page is reloaded. */
const MAX_CHARACTERS = 2_000_000
const MAX_PIECES = 20

/** Work as it is stored. `base`: identifies what it was typed over, such as a revision. */
const Piece = Schema.Struct({ base: Schema.String, work: Schema.Unknown })
type Piece = typeof Piece.Type

const decodePieces = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.String, Piece])))
)

/** Without access to the storage, or with too much in it, work lasts until the page is reloaded. */
const attempt = <A>(use: () => A): A | undefined => {
  try {
    return use()
  } catch {
    return undefined
  }
}

const pieces = new Map<string, Piece>(
  typeof sessionStorage === "undefined"
    ? []
    : Option.getOrElse(decodePieces(attempt(() => sessionStorage.getItem(WORK_KEY))), () => [])
)

const store = (): void => {
  for (const oldest of pieces.keys()) {
    if (pieces.size <= MAX_PIECES) break
    pieces.delete(oldest)
  }
  const texts: Array<string> = []
  let left = MAX_CHARACTERS
  for (const piece of [...pieces].toReversed()) {
    const text = JSON.stringify(piece)
    left -= text.length
    if (left < 0) break
    texts.unshift(text)
  }
  attempt(() =>
    texts.length === 0
      ? sessionStorage.removeItem(WORK_KEY)
      : sessionStorage.setItem(WORK_KEY, `[${texts.join(",")}]`)
  )
}

/** Unsaved work of a form. */
export interface KeptWork<A> {
  readonly work: A
  readonly setWork: (work: A) => void
  /** Whether the work was found, typed before this page was opened. */
  readonly isRestored: boolean
  /** The base of the work; not the given `base` if that has changed since. */
  readonly base: string
  /** Continues with work over the given `base`. */
  readonly rebase: (work: A) => void
  /** Forgets the work, and begins again. */
  readonly discard: () => void
  /** Forgets the work, because it is saved. The form keeps it. */
  readonly forget: () => void
}

/**
 * State of a form that is kept until it is saved or discarded. `name`: what is edited, such as a task's ID. `base`: identifies the saved state that
 * the form begins with. `toStored`: the part of the work that may be stored, without secrets; undefined: there is nothing to keep.
 * `restore`: the work of the stored form; undefined if it is of no use.
 */
export const useKeptWork = <A>({
  base,
  initial,
  name,
  restore,
  toStored
}: {
  readonly name: string
  readonly base: string
  readonly initial: () => A
  readonly toStored: (work: A) => unknown
  readonly restore: (stored: unknown) => A | undefined
}): KeptWork<A> => {
  const { key } = useSession()
  const at = `${key.id} ${name}`
  const [found] = useState(() => {
    const piece = pieces.get(at)
    const work = piece === undefined ? undefined : restore(piece.work)
    return piece === undefined || work === undefined ? undefined : { work, base: piece.base }
  })
  const [state, setState] = useState(() => ({
    work: found?.work ?? initial(),
    /** The base of the work. */
    base: found?.base ?? base,
    isRestored: found !== undefined
  }))
  const put = (next: typeof state) => {
    const stored = toStored(next.work)
    pieces.delete(at)
    if (stored !== undefined) pieces.set(at, { base: next.base, work: stored })
    store()
    setState(next)
  }
  const forget = () => {
    pieces.delete(at)
    store()
  }
  return {
    work: state.work,
    setWork: (work) => put({ ...state, work }),
    isRestored: state.isRestored,
    base: state.base,
    rebase: (work) => put({ work, base, isRestored: true }),
    discard: () => {
      forget()
      setState({ work: initial(), base, isRestored: false })
    },
    forget
  }
}

/** `useKeptWork` of one text, such as a comment. An empty one is not kept. */
export const useKeptText = (name: string): KeptWork<string> =>
  useKeptWork({
    name,
    base: "",
    initial: () => "",
    toStored: (text) => (text === "" ? undefined : text),
    restore: (stored) => (typeof stored === "string" ? stored : undefined)
  })

/** Whether a dialog with a form is open, and the functions that change it. */
export interface KeptDialog {
  readonly isOpen: boolean
  readonly open: () => void
  /** Closes it and forgets what was typed, saved or discarded. */
  readonly close: () => void
}

/**
 * State of a dialog with a form whose input is kept: it opens again with the input after a reload, Back, or a session that ended. `name`: that of
 * the form's `useKeptWork`.
 */
export const useKeptDialog = (name: string): KeptDialog => {
  const { key } = useSession()
  const at = `${key.id} ${name}`
  const [isOpen, setOpen] = useState(() => pieces.has(at))
  return {
    isOpen,
    open: () => setOpen(true),
    close: () => {
      if (pieces.delete(at)) store()
      setOpen(false)
    }
  }
}

/** Whether there is unsaved work of this name, when a page is opened. */
export const useHasKeptWork = (name: string): boolean => {
  const { key } = useSession()
  const [hasWork] = useState(() => pieces.has(`${key.id} ${name}`))
  return hasWork
}
