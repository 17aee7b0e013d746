import { useEffect, useEffectEvent } from "react"
import { useAtomValue } from "../state/atoms.ts"
import { letterShortcutsAtom } from "../state/letterShortcuts.ts"

/**
 * Binds keyboard shortcuts, by `KeyboardEvent.key`, or by `Shift+` and the key. They are ignored in form fields, in dialogs and with other
 * modifier keys. Single characters are ignored if their user has switched them off, and arrows in a pane that they scroll.
 */
export const useKeyboardShortcuts = (shortcuts: Readonly<Record<string, (() => void) | undefined>>): void => {
  const hasLetters = useAtomValue(letterShortcutsAtom)
  const onKeyDown = useEffectEvent((event: KeyboardEvent) => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return
    if (event.key.length === 1 && !hasLetters) return
    const { target } = event
    if (target instanceof HTMLElement && target.closest(IGNORED_TARGETS) !== null) return
    if (
      event.key.startsWith("Arrow") &&
      target instanceof HTMLElement &&
      target.closest("[data-scrolls]") !== null
    ) {
      return
    }
    // A key that is held down moves on, and acts on one thing only.
    if (event.repeat && !REPEATED_KEYS.has(event.key)) return
    const action = (event.shiftKey ? shortcuts[`Shift+${event.key}`] : undefined) ?? shortcuts[event.key]
    if (action === undefined) return
    event.preventDefault()
    action()
  })
  useEffect(() => {
    const listener = (event: KeyboardEvent) => onKeyDown(event)
    addEventListener("keydown", listener)
    return () => removeEventListener("keydown", listener)
  }, [])
}

const REPEATED_KEYS: ReadonlySet<string> = new Set(["j", "k", "ArrowDown", "ArrowUp"])

/** Fields that take these keys themselves. A checkbox takes only Space. */
const IGNORED_TARGETS = "input:not([type=checkbox]), textarea, select, [contenteditable], [role=dialog]"
