# German texts of Treeline, in Fluent syntax (https://projectfluent.org).
#
# Keys that start with live-, time- and script- also go to the browser. How to add a language: docs/languages.md.

language-name = Deutsch

# Navigation and shell
nav-overview = Übersicht
nav-jobs = Aufträge
nav-failures = Fehler
nav-operations = Sammelaktionen
nav-imports = Importe
nav-workers = Worker
nav-job-types = Auftragsarten
nav-schedules = Zeitpläne
nav-webhooks = Webhooks
nav-people = Personen
nav-api-access = API-Zugang
nav-audit-log = Prüfprotokoll
nav-more = Mehr
nav-group-work = Arbeit
nav-group-files = Dateien
nav-group-run = Betrieb
nav-group-admin = Verwaltung
nav-main = Hauptnavigation
shell-skip = Zum Inhalt springen
shell-expand-sidebar = Seitenleiste ausklappen
shell-collapse-sidebar = Seitenleiste einklappen
shell-expand = Ausklappen
shell-collapse = Einklappen
shell-home = Treeline, Startseite
shell-shortcuts = Tastenkürzel
shell-search = Suchen
shell-search-hint = Aufträge, Einträge, Fehler suchen…
shell-search-keys = Strg K
shell-palette = Suchen und öffnen
shell-palette-hint = Suchen oder Seite öffnen
shell-palette-results = Treffer
shell-palette-move = bewegen
shell-palette-open = öffnen
shell-palette-close = schließen
shell-palette-paste = Fügen Sie die ID eines Auftrags oder Eintrags ein, um ihn zu öffnen
shell-key-enter = Eingabe
shell-account-of = Konto: { $name }
shell-account = Konto
shell-documentation = Dokumentation
shell-api-reference = API-Referenz
shell-theme = Darstellung
shell-language = Sprache
shell-sign-out = Abmelden
shell-sections = Bereiche
shell-breadcrumb = Pfad
role-admin = Verwaltung
role-support = Support
role-user = Uploader
theme-system = System
theme-light = Hell
theme-dark = Dunkel

# Keyboard shortcuts and menu
menu-title = Menü
keys-text = Einzelne Tasten wirken nicht, während Sie tippen. Drücken Sie ? auf einer beliebigen Seite, um sie in diesem Browser auszuschalten.
keys-off = Kürzel aus einzelnen Tasten in diesem Browser ausschalten
keys-close-dialog = Schließen
keys-go-to = Gehe zu
keys-lists = Listen
keys-everywhere = Überall
keys-next = Nächste Zeile
keys-previous = Vorherige Zeile
keys-open = Zeile öffnen
keys-select = Zeile auswählen
keys-select-range = Von der letzten bis zu dieser Zeile auswählen
keys-filter = Zum Filter
keys-show = Diese Tasten anzeigen
keys-close = Schließen, Feld verlassen oder Auswahl aufheben

# Notices
bell-notices = Mitteilungen
bell-unread-count = Mitteilungen: { $n } ungelesen
bell-read-all = Alle als gelesen markieren
bell-none = Noch keine. Hier erfahren Sie, wenn Ihre Importe und die von Ihnen beobachteten Aufträge fertig sind oder Ihre Aufmerksamkeit brauchen.
bell-settings = Einstellungen für Mitteilungen
bell-unread = Ungelesen
bell-attention-failed = Bitte prüfen: { $n } fehlgeschlagen
bell-attention-answer = Bitte prüfen: wartet auf eine Antwort
bell-completed-failed = Abgeschlossen, { $n } fehlgeschlagen

# Time, on every page
time-seconds = { $n } Sek.
time-minutes = { $n } Min.
time-hours = { $n } Std.
time-days = { $n } Tg.
time-now = gerade eben
time-minutes-ago = vor { $n } Min.
time-hours-ago = vor { $n } Std.
time-one-day-ago = vor 1 Tag
time-days-ago = vor { $n } Tagen

# Sign-in
signin-title = Anmelden
signin-email = E-Mail-Adresse
signin-password = Passwort
signin-signed-out = Sie sind abgemeldet.
signin-with-passkey = Mit Passkey anmelden
signin-use-passkey = Passkey verwenden
signin-with = Mit { $provider } anmelden
signin-help = Kein Konto oder Passwort vergessen? Bitten Sie die Verwaltung um einen Anmeldelink. Beim ersten Start steht einer im Terminal, in dem Treeline läuft.
signin-services = Programme verwenden stattdessen ein Token: { $reference }, { $documentation }.
signin-too-many = Zu viele Versuche
signin-try-in = Versuchen Sie es in { $time } erneut.
signin-wrong = E-Mail-Adresse oder Passwort ist falsch
signin-wrong-text = Prüfen Sie beides und versuchen Sie es erneut.
signin-wrong-code = Dieser Code ist falsch
signin-wrong-code-text = Prüfen Sie ihn oder nutzen Sie einen anderen Weg. Jeder Code gilt nur einmal.
signin-second = Zweiter Faktor
signin-second-help = Zweiten Faktor und Wiederherstellungscodes verloren? Die Verwaltung kann ihn zurücksetzen.
signin-start-over = Von vorn beginnen
signin-code = Code
signin-code-help = Die sechs Ziffern, die Ihre Authenticator-App gerade anzeigt.
signin-recovery = Wiederherstellungscode
signin-recovery-help = Falls Sie Ihren zweiten Faktor verloren haben. Jeder Code gilt nur einmal.
signin-not = Sie sind nicht angemeldet
signin-other-ways = Andere Anmeldung wählen
signin-link-title = Bei Treeline anmelden
signin-link-text = Dieser Link gilt nur einmal. Fahren Sie fort, um ihn in diesem Browser zu verwenden.
signin-expired = Dieser Link ist abgelaufen oder wurde bereits verwendet
signin-expired-ask = Bitten Sie die Verwaltung um einen neuen.
signin-expired-maybe = Wenn Sie ihn in diesem Browser verwendet haben, sind Sie vermutlich schon angemeldet.
signin-invalid = Link ungültig

# Error pages
error-open = Treeline öffnen
error-try-again = Erneut versuchen
error-jobs = Ihre Aufträge ansehen
error-request-id = Anfrage-ID:
error-not-found = Seite nicht gefunden
error-not-found-text = Die Adresse ist vielleicht falsch, oder die Seite gehört jemand anderem.
error-forbidden = Sie dürfen diese Seite nicht sehen
error-unauthenticated = Melden Sie sich an, um fortzufahren
error-unauthenticated-text = Diese Seite ist nur für angemeldete Personen.
error-removed = Dieser Auftrag wurde entfernt
error-removed-text = Er wurde gelöscht oder seine Aufbewahrungsfrist ist abgelaufen. Seine Einträge, Ergebnisse und Downloads sind nicht mehr vorhanden.
error-database = Treeline erreicht seine Datenbank nicht
error-database-text = Was gespeichert ist, ist sicher, und die Arbeit wird fortgesetzt, sobald sie wieder da ist. Versuchen Sie es in einigen Sekunden erneut.
error-still-here = Was Sie eingegeben haben, ist noch da.
error-send-again = Noch einmal senden
error-restarting = Dieser Server wird neu gestartet
error-restarting-text = Versuchen Sie es in einigen Sekunden erneut.
error-internal = Auf dem Server ist etwas schiefgegangen
error-internal-text = Versuchen Sie es erneut. Wenn es wieder geschieht, nennen Sie der Verwaltung die Anfrage-ID.
error-not-possible = Das ist nicht möglich

# Forms
form-reason = Begründung
form-reason-help = Dies ist die Arbeit von { $owner }. Die Begründung wird im Prüfprotokoll festgehalten.
form-reason-others = Begründung (dies ist die Arbeit von jemand anderem; die Begründung wird im Prüfprotokoll festgehalten)
form-reason-optional = Begründung (optional)
form-optional = (optional)
form-nothing-saved = Es wurde nichts gespeichert
form-nothing-changed = Es wurde nichts geändert
form-reason-required = Eine Begründung ist erforderlich
form-reason-required-text = Dies ist die Arbeit von jemand anderem. Die Begründung wird im Prüfprotokoll festgehalten.

# Language of a page
language-choice = Sprache
language-browser = Wie im Browser
language-save = Sprache speichern
language-help = Zahlen und Daten richten sich nach der Sprache und, soweit Ihr Browser sie nennt, nach Ihrer Region.
language-saved = Ihre Sprache ist gespeichert.

# Imports
imports-new = Neuer Import
imports-recent = Letzte Importe
imports-older = Ältere Importe
imports-older-link = Ältere
imports-pages = Seiten
imports-deleted = Gelöscht, mit allen Zeilen und Ergebnissen.
imports-first = Hier beginnt Ihr erster Import
imports-first-text = Legen Sie oben eine Tabelle ab. Sie sehen ihre Zeilen, verfolgen deren Bearbeitung Zeile für Zeile und laden die Ergebnisse herunter. Fehlgeschlagene Zeilen kommen mit der Ursache zurück.
imports-none = Noch keine Importe
imports-none-text = Dateien, die Sie importieren, erscheinen hier.
imports-none-older = Keine älteren Importe
imports-none-older-text = Alles Ältere wurde gelöscht, oder es gab vorher nichts.
imports-watch = Verfolgen
imports-watch-name = { $name } verfolgen
imports-fix = Korrigieren
imports-fix-name = Zeilen von { $name } korrigieren
imports-results-name = Ergebnisse von { $name }
imports-open = Öffnen
imports-open-name = { $name } öffnen
imports-done-failed = { $done } erledigt, { $failed } fehlgeschlagen
progress-of = Fortschritt von { $name }

# New import
import-step-upload = Hochladen
import-step-review = Prüfen und starten
import-steps = Schritte
import-review-files = Dateien prüfen
import-review = Zeilen prüfen
import-review-corrected = Korrigierte Zeilen prüfen
import-upload-corrected = Korrigierte Zeilen hochladen
import-not-started-title = Nicht gestartet: { $heading }
import-corrects = Diese Zeilen korrigieren { $import }. Laden Sie die Liste der fehlgeschlagenen Zeilen so hoch, wie sie heruntergeladen wurde: Spalten, die mit _ beginnen, werden ausgelassen, und jede Zeile behält ihre Zeilennummer.
import-sample = Keine Datei zur Hand?
import-sample-try = Beispieldatei ausprobieren
import-sample-download = Herunterladen
import-advice = Prüfen Sie, wie die Datei gelesen wird, und starten Sie dann den Import.
import-show-again = Zeilen erneut anzeigen
import-start = Import starten
import-check-again = Erneut prüfen
import-uploaded = { $size } hochgeladen
import-replace = Ersetzen
import-no-rows = Die Datei hat keine Zeilen
import-bad-header = Die Kopfzeile hat leere oder doppelte Spaltennamen
import-too-large = Die Datei ist zu groß
import-unsupported = Dieser Dateityp wird nicht unterstützt
import-not-started = Der Import wurde nicht gestartet
import-larger = Die Datei ist größer als { $limit }. Teilen Sie sie auf und importieren Sie die Teile.
import-unreadable = Die Datei kann nicht gelesen werden
import-unreadable-header = Wählen Sie oben die Zeile mit den Spaltennamen oder „Keine Kopfzeile“. Oder korrigieren Sie die Datei und laden Sie sie erneut hoch.
import-unreadable-file = Korrigieren Sie die Datei und laden Sie sie erneut hoch.
import-line = Zeile
import-column = Spalte { $n }
import-no-column = keine Spalte
import-cell-line = { $name }, Zeile { $line }
import-detect = Automatisch erkennen
import-sheet = Tabellenblatt
import-separator = Trennzeichen
import-encoding = Zeichencodierung
import-name = Name
import-name-help = So finden Sie den Import wieder.
import-type = Auftragsart
import-type-help = Bestimmt, was mit jeder Zeile geschieht.
import-header = Kopfzeile
import-header-yes = Eine Zeile nennt die Spalten
import-header-no = Keine Kopfzeile
import-header-row = Nummer der Kopfzeile
import-header-row-help = Leer: die erste Zeile. Zeilen darüber werden übersprungen.
separator-comma = Komma
separator-semicolon = Semikolon
separator-tab = Tabulator
separator-bar = Senkrechter Strich
encoding-windows-1252 = Windows-1252 (Westeuropa)
encoding-iso-8859-15 = ISO-8859-15 (Westeuropa)
encoding-windows-1250 = Windows-1250 (Mitteleuropa)
encoding-windows-1251 = Windows-1251 (Kyrillisch)
encoding-shift-jis = Shift JIS (Japanisch)
encoding-gb18030 = GB 18030 (Chinesisch)
import-start-rows =
    { $n ->
        [one] 1 Zeile importieren
       *[other] { $n } Zeilen importieren
    }
facts-comma = Komma
facts-semicolon = Semikolon
facts-tab = Tabulator
facts-bar = senkrechter Strich
facts-table = Tabelle
facts-first-sheet = erstes Blatt der Arbeitsmappe
facts-json-array = JSON-Liste
facts-lines = Textzeilen
facts-one = ein Eintrag
facts-ndjson = ein JSON-Wert pro Zeile
facts-columns =
    { $n ->
        [one] 1 Spalte
       *[other] { $n } Spalten
    }
preview-all = Alle Zeilen
preview-first = Erste Zeilen
preview-read =
    { $n ->
        [one] 1 Zeile, wie sie gelesen wird
       *[other] { $n } Zeilen, wie sie gelesen werden
    }
preview-read-bad =
    { $n ->
        [one] { $rows }, davon ist { $n } fehlerhaft und wird zurückgestellt
       *[other] { $rows }, davon sind { $n } fehlerhaft und werden zurückgestellt
    }
preview-columns-cut = Die ersten { $shown } von { $all } Spalten
preview-unchecked = Das sind die ersten Zeilen
preview-unchecked-text = Vor dem Start werden alle Zeilen der Datei geprüft, damit Sie fehlerhafte hier korrigieren können.
preview-header = Die Spaltennamen stehen anscheinend in Zeile { $row }. Was darüber steht, wird dann nicht importiert.
preview-header-use = Zeile { $row } verwenden
preview-cannot-read-text = Die Ursache steht jeweils darunter. Sie können starten und die Zeilen später korrigieren: Sie werden zurückgestellt. Oder korrigieren Sie die Datei und ersetzen Sie sie.
preview-expected = Erwartete Spalten: { $names }.
preview-expected-more = Erwartete Spalten: { $names } und { $n } weitere.
preview-findings-text = Sie können starten und sie später korrigieren: Zeilen, die nicht passen, werden mit der Ursache zurückgestellt. Oder korrigieren Sie die Datei und ersetzen Sie sie.
preview-cannot-read =
    { $n ->
        [one] 1 Zeile kann nicht gelesen werden
       *[other] { $n } Zeilen können nicht gelesen werden
    }
preview-fits =
    { $n ->
        [one] Die Spalten und die erste Zeile entsprechen dem, was { $name } erwartet.
       *[other] Die Spalten und die ersten { $n } Zeilen entsprechen dem, was { $name } erwartet.
    }
preview-findings =
    { $n ->
        [one] 1 Punkt entspricht nicht dem, was { $name } erwartet
       *[other] { $n } Punkte entsprechen nicht dem, was { $name } erwartet
    }
template-of = Vorlage für { $name } als { $kind }
template-excel = Excel-Vorlage
template-csv = CSV-Vorlage
template-title = Mit einer Vorlage beginnen
template-text = Füllen Sie eine Datei aus, die schon die richtigen Spalten hat. Die ersten Zeilen sind Beispiele: Ersetzen Sie sie.
files-refused = Nicht hochgeladen.
files-text = Es wurde noch nichts gestartet. Prüfen Sie die Zeilen jeder Datei und starten Sie dann ihren Import. Sie können auf diese Seite zurückkehren.
files-more = Weitere Dateien hochladen

# Rows of a checked file
grid-all-ready =
    { $n ->
        [one] Die einzige Zeile ist bereit
       *[other] Alle { $n } Zeilen sind bereit
    }
grid-ready =
    { $n ->
        [0] Keine Zeile ist bereit
        [one] 1 Zeile ist bereit
       *[other] { $n } Zeilen sind bereit
    }
grid-attention =
    { $n ->
        [one] { $n } ist zu prüfen
       *[other] { $n } sind zu prüfen
    }
grid-left-out =
    { $n ->
        [one] { $n } wird ausgelassen
       *[other] { $n } werden ausgelassen
    }
grid-advice-none = Es würde keine Zeile importiert. Wählen Sie Zeilen aus, die importiert werden sollen.
grid-advice-start = { $summary }. Starten Sie unten den Import.
grid-advice-fix =
    { $n ->
        [one] { $n } von { $rows } ist fehlerhaft. Korrigieren Sie sie hier oder starten Sie trotzdem: Diese Zeile wird zurückgestellt, und Sie können sie später korrigieren.
       *[other] { $n } von { $rows } sind fehlerhaft. Korrigieren Sie sie hier oder starten Sie trotzdem: Diese Zeilen werden zurückgestellt, und Sie können sie später korrigieren.
    }
grid-leave-out = Auslassen
grid-leave-out-line = Zeile { $line } auslassen
grid-all-columns = Alle { $n } Spalten jeder Zeile anzeigen
grid-rows = Zeilen
grid-not-imported = nicht importiert
grid-show = Zeilen anzeigen
grid-show-all = Alle
grid-show-problems = Nur fehlerhafte
grid-show-changed = Geänderte
grid-cut = Von { $rows } sehen Sie die ersten { $first } und die letzten { $last }.
grid-cut-special = Von { $rows } sehen Sie die ersten { $first } und die letzten { $last } sowie jede fehlerhafte oder geänderte Zeile.
grid-too-many = Es gibt mehr fehlerhafte Zeilen, als hier Platz haben. Einfacher ist es, die Datei zu korrigieren und zu ersetzen.
grid-next-fields = Korrigieren Sie die Zeilen mit Eingabefeldern und prüfen Sie erneut; dann bekommen die nächsten Eingabefelder.
grid-columns-cut = Die ersten { $shown } von { $all } Spalten.
grid-keys = { $enter } geht nach unten, { $alt } { $down } zum nächsten Fehler, { $escape } stellt die Zelle wieder her.
grid-lines = Die Zeilennummern sind die Ihrer Datei.
grid-problems-csv = Fehler als CSV
grid-was-empty = War leer
grid-changed-from = Vorher „{ $text }“
grid-use = „{ $text }“ verwenden
grid-use-in-line = „{ $text }“ in Zeile { $line } verwenden
grid-extra-cells = Überzählige Zellen auslassen
grid-missing-cells = Die fehlenden Zellen sind leer
grid-correct-in-file = Korrigieren Sie dies in der Datei oder lassen Sie die Zeile aus.
fixes-title = Korrekturen mehrerer Zeilen
fixes-as-proposed = { $n } wie vorgeschlagen korrigieren
fixes-leave-out = { $n } Zeilen auslassen
fixes-rows =
    { $n ->
        [one] 1 Zeile ist fehlerhaft
       *[other] { $n } Zeilen sind fehlerhaft
    }

# Columns of a file
kind-text = Text
kind-number = Zahl
kind-integer = Ganze Zahl
kind-boolean = Ja oder Nein
kind-date = Datum
kind-in-text-text = Text
kind-in-text-number = Zahl
kind-in-text-integer = ganze Zahl
kind-in-text-boolean = Ja/Nein
kind-in-text-date = Datum
columns-title = Spalten zuordnen
columns-matched = { $n } von { $all } nach Namen zugeordnet
columns-none-required = Keine Spalte ist erforderlich.
columns-required = Erforderlich: { $names }.
columns-missing = Wählen Sie eine Spalte für { $names }.
columns-remembered = Ihre Auswahl wird für die nächste Datei wieder vorgeschlagen.
columns-property-for = Feld für { $name }
columns-values-of = Werte von { $name }
columns-do-not-import = Nicht importieren
columns-left-out = Ausgelassen
columns-match = Zugeordnet
columns-check = Prüfen
columns-your-choice = Ihre Wahl
columns-remembered-choice = wie bei Ihrem letzten Import
columns-same-name = gleicher Name
columns-similar-name = ähnlicher Name
columns-nothing-fits = kein Feld passt

# Page of an import
progress-attention =
    { $n ->
        [one] { $rows } zu prüfen
       *[other] { $rows } zu prüfen
    }
progress-none = Keine Zeile konnte importiert werden
progress-imported-by = Importiert von { $owner }
progress-uploaded = Hochgeladen { $time }
progress-created = Erstellt { $time }
progress-job-type = Auftragsart { $name }
progress-open-job = Als Auftrag öffnen
progress-fix = { $rows } korrigieren
progress-download-failed = Fehlgeschlagene Zeilen herunterladen
progress-try-again = Noch einmal versuchen
progress-try-again-text = Haben Sie die Liste der fehlgeschlagenen Zeilen schon korrigiert? Laden Sie sie hoch: Nur diese Zeilen werden erneut bearbeitet, und sie behalten ihre Zeilennummern.
progress-corrects = Diese Zeilen korrigieren { $import }.
progress-corrected-by = Korrigierte Zeilen wurden als { $import } hochgeladen.
progress-canceled = Der Import ist abgebrochen
progress-canceled-text = Zeilen, die noch nicht begonnen waren, werden nicht bearbeitet. Erledigtes bleibt erledigt.
progress-delete = Löschen…
progress-delete-job = Auftrag löschen…
progress-delete-question = „{ $name }“ löschen?
progress-delete-text = Die Zeilen, ihre Ergebnisse und alle Downloads werden sofort gelöscht. Das kann nicht rückgängig gemacht werden.
progress-delete-import-button = Import löschen
progress-delete-job-button = Auftrag löschen
progress-keep = Behalten
progress-cancel = Import abbrechen…
progress-cancel-job = Auftrag abbrechen…
progress-cancel-question = „{ $name }“ abbrechen?
progress-cancel-button = Import abbrechen
progress-cancel-job-button = Auftrag abbrechen
progress-keep-running = Weiterlaufen lassen
cancel-waiting =
    { $kind ->
        [row]
            { $n ->
                [one] 1 wartende Zeile wird nicht bearbeitet.
               *[other] { $n } wartende Zeilen werden nicht bearbeitet.
            }
       *[item]
            { $n ->
                [one] 1 wartender Eintrag wird nicht bearbeitet.
               *[other] { $n } wartende Einträge werden nicht bearbeitet.
            }
    }
cancel-running =
    { $n ->
        [one] { $n } in Bearbeitung wird gestoppt.
       *[other] { $n } in Bearbeitung werden gestoppt.
    }
cancel-results =
    { $kind ->
        [row] Fertige Ergebnisse bleiben, und es können keine Zeilen mehr hinzukommen. Das kann nicht rückgängig gemacht werden.
       *[item] Fertige Ergebnisse bleiben, und es können keine Einträge mehr hinzukommen. Das kann nicht rückgängig gemacht werden.
    }
downloads-title = Downloads
downloads-results = Ergebnisse
downloads-results-so-far = Bisherige Ergebnisse
downloads-results-as = Ergebnisse, { $format }
downloads-each-reason = { $rows }, jeweils mit Ursache
downloads-csv = CSV für ein anderes Programm
downloads-semicolon = Semikolon (Excel in den meisten Ländern Europas)
downloads-utf8-excel = UTF-8 für Excel
downloads-failed =
    { $kind ->
        [row] Fehlgeschlagene Zeilen
       *[item] Fehlgeschlagene Einträge
    }
downloads-failed-so-far =
    { $kind ->
        [row] Bisher fehlgeschlagene Zeilen
       *[item] Bisher fehlgeschlagene Einträge
    }
downloads-failed-as =
    { $kind ->
        [row] Fehlgeschlagene Zeilen, { $format }
       *[item] Fehlgeschlagene Einträge, { $format }
    }
failed-title =
    { $kind ->
        [row] Fehlgeschlagene Zeilen
       *[item] Fehlgeschlagene Einträge
    }
failed-in-groups =
    { $groups ->
        [one] { $rows }, in { $groups } Gruppe
       *[other] { $rows }, in { $groups } Gruppen
    }
failed-so-far-in-groups =
    { $groups ->
        [one] bisher { $rows }, in { $groups } Gruppe
       *[other] bisher { $rows }, in { $groups } Gruppen
    }
failed-more =
    { $n ->
        [one] 1 weitere Ursache steht im Download.
       *[other] { $n } weitere Ursachen stehen im Download.
    }
failed-so-far = bisher { $rows }
failed-nothing = Bisher ist nichts fehlgeschlagen.
failed-counting = Die Ursachen werden gerade gezählt.
failed-later = Fehlgeschlagene Zeilen halten die anderen nicht auf. Sie können sie hier korrigieren, sobald der Import fertig ist.
failed-fix = { $n } korrigieren
failed-encoding = Die Datei hat vielleicht eine andere Zeichencodierung.
failed-encoding-link = Zeichencodierung wählen und erneut importieren
failed-last = zuletzt { $time }
failed-last-of-more = und { $n } weitere dieser Art, zuletzt { $time }
holds-rows =
    { $n ->
        [one] 1 Zeile wartet.
       *[other] { $n } Zeilen warten.
    }
holds-paused = Diese Art von Arbeit ist vorübergehend angehalten.
holds-nobody = Dateien dieser Art werden noch nicht bearbeitet.
holds-nobody-since = Dateien dieser Art werden seit { $time } nicht bearbeitet.
holds-no-answer = Das Programm, das Dateien dieser Art bearbeitet, antwortet zurzeit nicht.
holds-rest = Es geht nichts verloren: Sobald sich das ändert, geht es weiter.

# Reasons of faulty cells
problem-expected = Erwartet: { $expected }; gefunden: { $found }.
problem-in-line = Zeile { $line }: erwartet: { $expected }; gefunden: { $found }.
problem-in-column = Zeile { $line }, Spalte { $column }: erwartet: { $expected }; gefunden: { $found }.
problem-in-named-column = Zeile { $line }, Spalte { $column } ({ $name }): erwartet: { $expected }; gefunden: { $found }.
problem-of-column = Spalte { $column }: erwartet: { $expected }; gefunden: { $found } in Zeile { $line }.
problem-in-column-of-name = Spalte { $column }: erwartet: { $expected }; gefunden: { $found }.
problem-of-row = Die Zeile: erwartet: { $expected }; gefunden: { $found }.
problem-whole-row = die ganze Zeile
problem-number = eine Zahl
problem-whole-number = eine ganze Zahl
problem-text = Text
problem-true-or-false = wahr oder falsch (true oder false)
problem-boolean = true, false, yes, no, 1 oder 0
problem-object = ein Objekt
problem-array = eine Liste
problem-value = ein Wert
problem-nothing = nichts
problem-nothing-of-name = nichts mit diesem Namen
problem-text-not-empty = Text, der nicht leer ist
problem-name = ein Name
problem-closing-quote = ein schließendes Anführungszeichen
problem-line-end = das Ende der Zeile
problem-cell-end = das Ende der Zelle nach dem schließenden Anführungszeichen
problem-more-text = weiterer Text
problem-not-utf8 = Zeichen, die nicht UTF-8 sind
problem-nul = ein NUL-Zeichen
problem-excel-date = die Excel-Nummer eines Tages
problem-unreadable = ein Zeichen, das nicht lesbar war
problem-error = der Fehler { $value }
problem-at-least = mindestens { $value }
problem-at-most = höchstens { $value }
problem-one-of = einer dieser Werte: { $value }
problem-more-than = mehr als { $value }
problem-less-than = weniger als { $value }
problem-number-such-as = eine Zahl wie { $value }
problem-whole-number-such-as = eine ganze Zahl wie { $value }
problem-date = ein Datum im Format { $value }
problem-format = Text im Format { $value }
problem-text-at-least = Text mit mindestens { $value } Zeichen
problem-text-at-most = Text mit höchstens { $value } Zeichen
problem-fields =
    { $n ->
        [one] 1 Feld
       *[other] { $n } Felder
    }

# Reasons for not taking a file
problem-upload-zip = Die Datei ist ein ZIP-Archiv und keine Excel-Arbeitsmappe. Entpacken Sie es und laden Sie den Inhalt hoch.
problem-upload-ending = Die Datei ist eine Excel-Arbeitsmappe mit einer anderen Endung. Ändern Sie ihren Namen so, dass er auf .xlsx endet, und laden Sie sie erneut hoch.
problem-upload-xls = Die Datei ist eine alte Excel-Arbeitsmappe (XLS) oder durch ein Passwort geschützt. Öffnen Sie sie in Excel, speichern Sie sie als XLSX ohne Passwort und laden Sie diese hoch.
problem-upload-gzip = Die Datei ist ein GZIP-Archiv. Entpacken Sie es und laden Sie den Inhalt hoch.
problem-upload-pdf = Die Datei ist ein PDF und hat keine lesbaren Zeilen. Speichern oder exportieren Sie die Tabelle in ihrem Programm als CSV oder Excel (XLSX) und laden Sie diese hoch.
problem-upload-image = Die Datei ist ein Bild. Speichern oder exportieren Sie die Tabelle in ihrem Programm als CSV oder Excel (XLSX) und laden Sie diese hoch.
problem-upload-no-workbook = Die Datei heißt wie eine Excel-Arbeitsmappe, ist aber keine. Speichern oder exportieren Sie die Tabelle in ihrem Programm als CSV oder Excel (XLSX) und laden Sie diese hoch.
problem-upload-quota = Diese Datei passt nicht mehr: Ihre Dateien würden mehr Platz belegen, als sie dürfen.
problem-upload-disk = Der Speicher ist fast voll. Es wurde nichts gespeichert; die Verwaltung muss Platz schaffen.

# Correcting failed rows
correct-back = Zurück zum Import
correct-none = Nichts zu korrigieren
correct-none-text = Keine Zeile dieses Imports ist fehlgeschlagen, oder alle werden gerade wiederholt.
correct-title = Fehlgeschlagene Zeilen korrigieren
correct-page = Fehlgeschlagene Zeilen von { $name } korrigieren
correct-page-refused = Nichts wurde wiederholt: fehlgeschlagene Zeilen von { $name } korrigieren
correct-text = Ändern Sie, was falsch ist. Geänderte Zeilen werden wiederholt; die anderen bleiben, wie sie sind.
correct-cut = Sie sehen die ersten { $shown } von { $all } fehlgeschlagenen Zeilen. Bei vielen ist es einfacher, sie { $download }, dort zu korrigieren und sie { $upload }.
correct-cut-download = herunterzuladen
correct-cut-upload = wieder hochzuladen
correct-others = Auch die Zeilen wiederholen, die ich nicht geändert habe
correct-retry = Geänderte Zeilen wiederholen
correct-unchanged = Es wurde nichts geändert: Korrigieren Sie eine Zeile oder wählen Sie, dass die anderen noch einmal versucht werden.
correct-misfits =
    { $n ->
        [one] Eine Zeile passt noch nicht; der Grund steht bei der Zeile.
       *[other] { $n } Zeilen passen noch nicht; der Grund steht bei der Zeile.
    }
correct-retried =
    { $n ->
        [one] 1 Zeile wird wiederholt
       *[other] { $n } Zeilen werden wiederholt
    }
correct-changed = Spalte { $column }: Jemand hat sie inzwischen in „{ $text }“ geändert. Wiederholen Sie noch einmal, um das zu ersetzen.

# Share links
share-button = Teilen
share-with-you = Für Sie zur Ansicht freigegeben
share-revoked = Dieser Link wurde widerrufen. Bitten Sie um einen neuen, wenn Sie ihn noch brauchen.
share-expired = Dieser Link ist abgelaufen. Bitten Sie um einen neuen, wenn Sie ihn noch brauchen.
share-closed = Das Konto, das diesen Link erstellt hat, wurde geschlossen. Bitten Sie um einen neuen, wenn Sie ihn noch brauchen.
share-gone = Was er zeigte, ist nicht mehr vorhanden: Es wurde gelöscht, oder die Aufbewahrungsfrist ist abgelaufen.
share-nothing = Hinter diesem Link ist nichts. Prüfen Sie, ob er vollständig kopiert wurde.
share-shows-nothing = Dieser Link zeigt nichts
share-your-link = Ihr Link
share-copy-now = Kopieren Sie ihn jetzt; er wird nicht noch einmal angezeigt. Er gilt, bis er endet oder widerrufen wird.
share-link = Link
share-reason-help = Sie wird im Prüfprotokoll festgehalten.
share-text = Wer den Link hat, sieht Fortschritt, Fehler und Downloads, sonst nichts.
share-ends-after = Endet nach
share-create = Link erstellen
share-year = 1 Jahr
share-visible = Sichtbar für Sie sowie für Support und Verwaltung.
share-visible-owner = Sichtbar für { $owner } sowie für Support und Verwaltung.
share-last-opened = zuletzt geöffnet { $time }
share-never-opened = nie geöffnet
share-created = Erstellt { $time } von { $name }
share-ends = Endet { $time }
share-revoke = Diesen Link widerrufen
share-revoke-effect = Wer ihn hat, sieht nichts mehr. Das lässt sich nicht rückgängig machen.
share-days =
    { $n ->
        [one] { $n } Tag
       *[other] { $n } Tagen
    }
share-anyone =
    { $n ->
        [one] Auch für alle, die den Link haben.
       *[other] Auch für alle, die einen der { $n } Links haben.
    }

# Live parts of pages. The browser gets these texts, so they are few and short.
live-stale-since = Veraltet seit { $time }
live-percent = { $n } %
live-bar-percent-done = { $percent } %, { $done } erledigt
live-bar-percent-of = { $percent } %, { $done } von { $whole } erledigt
live-bar-done = { $done } erledigt
live-bar-failed = { $words }, { $n } fehlgeschlagen
live-left-seconds = noch etwa { $low } bis { $high } Sek.
live-left-minutes = noch etwa { $low } bis { $high } Min.
live-left-hours = noch etwa { $low } bis { $high } Std.
live-left-seconds-under = noch weniger als { $high } Sek.
live-left-minutes-under = noch weniger als { $high } Min.
live-left-hours-under = noch weniger als { $high } Std.
live-rate-second = { $n }/s
live-rate-minute = { $n }/min
live-state-succeeded = erfolgreich
live-state-done = erledigt
live-state-failed = fehlgeschlagen
live-state-running = in Bearbeitung
live-state-retrying = wird wiederholt
live-state-waiting = wartet
live-state-scheduled = geplant
live-state-blocked = blockiert
live-state-waiting-for-event = wartet auf ein Ereignis
live-state-canceled = abgebrochen
live-state-expired = abgelaufen
live-status-waiting = Wartet
live-status-running = In Bearbeitung
live-status-canceling = Wird abgebrochen
live-status-partial = Teilweise fehlgeschlagen
live-status-failed = Fehlgeschlagen
live-status-canceled = Abgebrochen
live-status-completed = Abgeschlossen
live-waiting = Wartet auf den Start.
live-waiting-count = Wartet auf den Start: { $rows }.
live-canceling = Wird abgebrochen: { $rows } noch in Bearbeitung.
live-canceled-after = Abgebrochen nach { $done } von { $rows }.
live-nothing-to-do = Fertig. Es gab nichts zu tun.
live-count =
    { $kind ->
        [row]
            { $n ->
                [one] 1 Zeile
               *[other] { $n } Zeilen
            }
       *[item]
            { $n ->
                [one] 1 Eintrag
               *[other] { $n } Einträge
            }
    }
live-reading =
    { $kind ->
        [row] Ihre Datei wird gelesen.
       *[item] Einträge werden empfangen.
    }
live-reading-count =
    { $kind ->
        [row] Ihre Datei wird gelesen: bisher { $rows }.
       *[item] Einträge werden empfangen: bisher { $rows }.
    }
live-working =
    { $kind ->
        [row] Ihre Zeilen werden bearbeitet: { $done } von { $whole } sind erledigt.
       *[item] Die Einträge werden bearbeitet: { $done } von { $whole } sind erledigt.
    }
live-working-reading =
    { $kind ->
        [row] Ihre Zeilen werden gelesen und bearbeitet: bisher sind { $done } von { $whole } erledigt.
       *[item] Die Einträge werden bearbeitet: bisher sind { $done } von { $whole } erledigt.
    }
live-done-of =
    { $kind ->
        [row]
            { $n ->
                [one] { $n } von { $rows } ist importiert.
               *[other] { $n } von { $rows } sind importiert.
            }
       *[item]
            { $n ->
                [one] { $n } von { $rows } ist erledigt.
               *[other] { $n } von { $rows } sind erledigt.
            }
    }
live-corrected =
    { $n ->
        [one] { $rows } wurde in einem anderen Import korrigiert.
       *[other] { $rows } wurden in einem anderen Import korrigiert.
    }
live-attention =
    { $n ->
        [one] { $rows } müssen Sie prüfen.
       *[other] { $rows } müssen Sie prüfen.
    }
live-all-done =
    { $kind ->
        [row]
            { $n ->
                [one] 1 Zeile ist importiert.
               *[other] Alle { $n } Zeilen sind importiert.
            }
       *[item]
            { $n ->
                [one] 1 Eintrag ist erledigt.
               *[other] Alle { $n } Einträge sind erledigt.
            }
    }
live-none-done =
    { $kind ->
        [row]
            { $n ->
                [one] 1 Zeile konnte nicht importiert werden.
               *[other] Keine der { $n } Zeilen konnte importiert werden.
            }
       *[item]
            { $n ->
                [one] 1 Eintrag konnte nicht erledigt werden.
               *[other] Keiner der { $n } Einträge konnte erledigt werden.
            }
    }
live-advice-corrected = Alle fehlgeschlagenen Zeilen wurden korrigiert.
live-advice-import = Sie können diese Seite schließen. Der Import läuft weiter, und diese Adresse zeigt seinen Stand.
live-advice-work = Sie können diese Seite schließen. Die Arbeit läuft weiter, und diese Adresse zeigt ihren Stand.
live-advice-canceling = Es beginnt nichts Neues. Was in Bearbeitung ist, wird gestoppt.
live-advice-canceled = Was vorher erledigt wurde, bleibt.
live-advice-reasons = Die Ursachen stehen unten.
live-advice-results = Ihre Ergebnisse sind fertig.
live-stage = Abschnitt { $at } von { $of }: { $name }
live-job-waiting = Der Auftrag wartet auf den Start…
live-job-canceling =
    { $n ->
        [one] Wird abgebrochen, { $n } läuft noch…
       *[other] Wird abgebrochen, { $n } laufen noch…
    }
live-job-running = Auftrag läuft, { $percent } % fertig…
live-job-running-done = Auftrag läuft, { $n } erledigt…
live-job-canceled = Auftrag abgebrochen
live-job-complete = Auftrag abgeschlossen
live-job-failed = , { $n } von { $all } fehlgeschlagen
live-job-corrected = , { $n } korrigiert
live-item = Eintrag { $n }
live-row = Zeile { $n }
live-off = Nicht live
live-connecting = Verbindung wird aufgebaut…
live-on = Live
live-reconnecting = Verbindung wird wiederhergestellt…
live-stale = Veraltet
live-polling = Ausgelastet: alle 10 Sek.
live-paused = Angehalten
live-finished = Beendet
live-removed = Entfernt
live-signed-out = Abgemeldet
live-closed = Geschlossen
live-resume = Fortsetzen
live-pause = Anhalten
live-refresh = Aktualisieren
live-every-10s = Alle 10 Sek.
live-sign-in = Anmelden
live-warning-stale = Diese Zahlen sind vielleicht veraltet: Die Verbindung ist unterbrochen. Sie wird von selbst wiederhergestellt.
live-warning-removed = Dieser Auftrag wurde entfernt. Sie sehen seinen letzten bekannten Stand.
live-warning-closed = Der Link wurde widerrufen oder gilt nicht mehr. Sie sehen den zuletzt angezeigten Stand.
live-warning-signed-out = Sie sind abgemeldet. Melden Sie sich wieder an, um zu sehen, wie es weitergeht.
live-under-1s = unter 1 Sek.
live-took = Dauer: { $took }
live-took-retries = Dauer: { $took }, einschließlich späterer Wiederholungen
live-took-average = Dauer: { $took }, im Mittel { $rate }
live-started = Begonnen
live-says-again = Die Arbeit geht weiter.
live-says-lost = Verbindung unterbrochen, die Zahlen sind vielleicht veraltet.
live-says-connected = Wieder verbunden.
live-says-failed = Bisher { $n } fehlgeschlagen.
live-says-percent = { $n } % erledigt.
live-upload-waits = Wartet auf die Dateien davor.
live-upload-unfinished = Nicht vollständig hochgeladen: { $n } % sind da. Wählen Sie die Datei erneut, um dort fortzufahren.
live-upload-broken = Verbindung bei { $n } % unterbrochen. Das Hochladen geht von selbst weiter.
live-upload-checking = Hochgeladen. Die Datei wird geprüft…
live-upload-sending = Wird hochgeladen, { $n } %. Lassen Sie diese Seite geöffnet.
live-upload-opening = Hochgeladen. Die ersten Zeilen werden geöffnet…
live-upload-stored = Hochgeladen. Es wurde noch nichts gestartet.
live-upload-drop = Dateien zum Importieren hier ablegen
live-upload-drop-one = Datei zum Importieren hier ablegen
live-upload-choose = Dateien auswählen
live-upload-choose-one = Datei auswählen
live-upload-limits = CSV, Excel (XLSX), JSON oder Textzeilen, bis { $size }; Excel bis { $excel }. Sie sehen die ersten Zeilen, bevor etwas beginnt.
live-upload-send = Hochladen
live-upload-cancel = Abbrechen
live-upload-progress = Gesendeter Teil der Datei
live-upload-stop = Stoppen
live-upload-stop-file = { $name } stoppen
live-upload-review = Zeilen prüfen
live-upload-review-file = Zeilen von { $name } prüfen
live-upload-files = Dateien
live-upload-stopped = Gestoppt.
live-upload-too-large = Die Datei ist größer als { $limit }: Sie hat { $size }. Teilen Sie sie auf und importieren Sie die Teile.
live-upload-empty = Die Datei ist leer.
live-upload-signed-out = Sie sind abgemeldet. Melden Sie sich an und wählen Sie die Datei erneut.
live-upload-refused = Der Server hat die Datei nicht angenommen. Versuchen Sie es gleich noch einmal.
live-upload-unreadable = Dieser Browser konnte die Datei nicht lesen. Wählen Sie sie erneut.
live-bytes =
    { $n ->
        [one] 1 Byte
       *[other] { $n } Byte
    }

# Scripts of pages. The browser gets these texts.
script-found-jobs = Aufträge
script-found-items = Einträge
script-found-errors = Fehler
script-found-uploads = Importe
script-found-workers = Worker
script-found-types = Auftragsarten
script-found-schedules = Zeitpläne
script-found-views = Gespeicherte Ansichten
script-found-operations = Sammelaktionen
script-found-people = Personen
script-found-services = Dienste
script-go-to = Gehe zu
script-show-new = { $n } neue anzeigen
script-search = Suchen
script-search-all = Alle Treffer für „{ $words }“ anzeigen
script-search-none = Keine Treffer
script-search-failed = Die Suche ist nicht erreichbar
script-copy = Kopieren
script-copied = Kopiert
script-notice-attention = Bitte prüfen: { $n } fehlgeschlagen
script-notice-answer = Bitte prüfen: wartet auf eine Antwort
script-notice-canceled = Abgebrochen
script-notice-failed = Fehlgeschlagen
script-notice-partial = Abgeschlossen, { $n } fehlgeschlagen
script-notice-completed = Abgeschlossen
script-stop = Stoppen
script-check-all = Ganze Datei prüfen
script-checking = Alle Zeilen werden geprüft…
script-check-stopped = Gestoppt. Sie können den Import trotzdem starten.
script-check-failed = Die Zeilen konnten nicht geprüft werden. Versuchen Sie es erneut.
script-passkey-unused = Der Browser hat keinen Passkey verwendet: Es wurde abgebrochen, oder es gibt keinen für diese Seite.
script-passkey-exists = Dieses Gerät hat schon einen Passkey für Ihr Konto.
