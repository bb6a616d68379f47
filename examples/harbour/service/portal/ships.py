"""Ships: listing, searching, and the notes that crews leave."""

from flask import Blueprint, jsonify, request
from markupsafe import Markup, escape

from portal.database import connection
from portal.errors import NotFound
from portal.sessions import current_crew

routes = Blueprint("ships", __name__)

SORT_COLUMNS = {"name": "name", "age": "built", "port": "home_port"}
PAGE_SIZE = 50


@routes.get("/ships")
def list_ships():
    """All ships, in the order that the caller asks for."""
    column = SORT_COLUMNS.get(request.args.get("sort", "name"), "name")
    statement = f"SELECT ship_id, name, kind, home_port, built FROM ships ORDER BY {column} LIMIT ?"
    rows = connection().execute(statement, (PAGE_SIZE,)).fetchall()
    return jsonify([dict(row) for row in rows])


@routes.get("/ships/search")
def search_ships():
    """Ships whose name contains a text, of one kind when the caller names one."""
    return jsonify(find_ships(request.args.get("q", ""), request.args.get("kind", "")))


def find_ships(text, kind):
    """Rows of ships by part of their name, and by kind."""
    statement = f"SELECT ship_id, name, kind FROM ships WHERE name LIKE '%{text}%'"
    parameters = []
    if kind:
        statement += " AND kind = ?"
        parameters.append(kind)
    return [dict(row) for row in connection().execute(statement, parameters)]


@routes.get("/ships/<int:ship_id>")
def show_ship(ship_id):
    """One ship."""
    row = connection().execute("SELECT * FROM ships WHERE ship_id = ?", (ship_id,)).fetchone()
    if row is None:
        raise NotFound(f"no ship {ship_id}")
    return jsonify(dict(row))


@routes.post("/ships/<int:ship_id>/notes")
def add_note(ship_id):
    """Leave a note about a ship."""
    crew = current_crew()
    connection().execute(
        "INSERT INTO notes (ship_id, author, text) VALUES (?, ?, ?)", (ship_id, crew["name"], request.form["text"])
    )
    connection().commit()
    return jsonify({"ok": True}), 201


@routes.get("/ships/<int:ship_id>/notes")
def show_notes(ship_id):
    """A ship's notes as a fragment of a page."""
    rows = connection().execute("SELECT author, text FROM notes WHERE ship_id = ?", (ship_id,)).fetchall()
    return "\n".join(render_note(row["author"], row["text"]) for row in rows)


def render_note(author, text):
    """A note as HTML; crews may write line breaks."""
    body = Markup("<p>" + text.replace("\n", "<br>") + "</p>")
    return f"<article><h3>{escape(author)}</h3>{body}</article>"
