import { useAtomValue } from "../state/atoms.ts"
import { letterShortcutsAtom, setLetterShortcuts } from "../state/letterShortcuts.ts"
import { Button } from "../ui/Button.tsx"
import { Checkbox } from "../ui/Checkbox.tsx"
import { Dialog } from "../ui/Dialog.tsx"

const shortcuts: ReadonlyArray<readonly [string, ReadonlyArray<readonly [string, string]>]> = [
  [
    "Approvals",
    [
      ["j, k", "next, previous"],
      ["↓, ↑", "next, previous in the list; in the selected approval, scroll"],
      ["a, r, c", "approve, reject, request changes"],
      ["x", "select, to decide several"],
      ["Shift and ↓, ↑", "extend the selection"],
      ["X", "select up to here"]
    ]
  ],
  [
    "Feedback",
    [
      ["j, k", "next, previous"],
      ["s, r", "stage, reject"]
    ]
  ],
  ["Comparison", [["j, k", "open the next, the previous example"]]],
  [
    "A run",
    [
      ["c, i", "correct, incorrect"],
      ["e", "correct the answer"]
    ]
  ],
  [
    "Deliveries",
    [
      ["j, k", "next, previous"],
      ["x", "select a failed delivery, to replay several"],
      ["Shift and ↓, ↑", "extend the selection"],
      ["X", "select up to here"]
    ]
  ],
  [
    "Every page",
    [
      ["Ctrl K, ⌘ K", "search everything, go to a page"],
      ["/", "the page's search field, else search everything"],
      ["Esc", "cancel, clear the selection"],
      ["?", "this list"]
    ]
  ]
]

/** The dialog that lists the keyboard shortcuts and switches single keys on or off. */
export default function KeyboardHelp({ onClose }: { readonly onClose: () => void }) {
  const hasLetters = useAtomValue(letterShortcutsAtom)
  return (
    <Dialog open title="Keyboard shortcuts" onClose={onClose}>
      {shortcuts.map(([page, keys]) => (
        <section key={page} aria-label={page} className="stack">
          <h3>{page}</h3>
          <dl className="facts">
            {keys.map(([key, action]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{action}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
      <Checkbox checked={hasLetters} onChange={setLetterShortcuts}>
        Use single letters as shortcuts, in this browser
      </Checkbox>
      <div className="dialog-actions">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}
