import { type FormEvent, useId, useState } from "react"
import { Link, usePath, useSearch } from "../app/router.tsx"
import { useAtomValue } from "../state/atoms.ts"
import { MAX_VIEW_NAME, removeView, saveView, savedViewsAtom } from "../state/savedViews.ts"
import { Button } from "./Button.tsx"
import { UntrustedText } from "./UntrustedText.tsx"

/** The saved filters of a list, as links, and a form that saves the current ones under a name. */
export const SavedViews = ({ list }: { readonly list: string }) => {
  const views = useAtomValue(savedViewsAtom(list))
  const path = usePath()
  const query = useSearch()
  const [name, setName] = useState<string>()
  const id = useId()
  const isSaved = views.some((view) => view.query === query)
  const save = (event: FormEvent) => {
    event.preventDefault()
    if (name === undefined || name.trim() === "") return
    saveView(list, { name: name.trim(), query })
    setName(undefined)
  }
  if (views.length === 0 && query === "") return null
  return (
    <div className="saved-views" role="group" aria-label="Saved views">
      {views.map((view) => (
        <span key={view.name} className="saved-view">
          <Link to={path + view.query} aria-current={view.query === query ? "true" : undefined}>
            <UntrustedText text={view.name} />
          </Link>
          <button
            type="button"
            aria-label={`Delete view ${view.name}`}
            onClick={() => removeView(list, view.name)}
          >
            ×
          </button>
        </span>
      ))}
      {query === "" || isSaved ? null : name === undefined ? (
        <Button small onClick={() => setName("")}>
          Save view
        </Button>
      ) : (
        <form className="saved-view-form" onSubmit={save}>
          <label className="visually-hidden" htmlFor={id}>
            Name of the view
          </label>
          <input
            id={id}
            // oxlint-disable-next-line jsx-a11y/no-autofocus -- the button was pressed to type a name
            autoFocus
            required
            maxLength={MAX_VIEW_NAME}
            placeholder="Name of the view"
            value={name}
            onChange={({ target }) => setName(target.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape") setName(undefined)
            }}
          />
          <Button small type="submit">
            Save
          </Button>
        </form>
      )}
    </div>
  )
}
