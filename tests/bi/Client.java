// A program over JDBC: what the driver says of a schema, then the rows of each line of its input.
// A line is SQL and its parameters, tabs between them; a parameter is TYPE:TEXT.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Types;
import java.time.LocalDate;

public class Client {
    private static PrintStream out;

    public static void main(String[] given) throws Exception {
        out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (Connection connection = DriverManager.getConnection(given[0])) {
            var metadata = connection.getMetaData();
            var kinds = new String[] {"TABLE", "VIEW"};
            tell("table", metadata.getTables(null, given[1], "%", kinds), "TABLE_NAME", "TABLE_TYPE", "REMARKS");
            String[] of = {"TABLE_NAME", "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "REMARKS"};
            tell("column", metadata.getColumns(null, given[1], "%", "%"), of);
            connection.setAutoCommit(false); // a fetch size counts only within a transaction
            var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answer(connection, line.split("\t"));
            }
        }
    }

    private static void tell(String what, ResultSet found, String... columns) throws SQLException {
        while (found.next()) {
            var said = new StringBuilder(what);
            for (String column : columns) said.append('\t').append(found.getString(column));
            out.println(said);
        }
    }

    private static void answer(Connection connection, String[] line) throws SQLException {
        try (PreparedStatement asked = connection.prepareStatement(line[0])) {
            asked.setFetchSize(2);
            for (int i = 1; i < line.length; i++) bind(asked, i, line[i].split(":", 2));
            for (int time = 0; time < 6; time++) { // from the fifth on the server keeps the plan
                try (ResultSet rows = asked.executeQuery()) {
                    if (time == 5) tell(rows);
                }
            }
            connection.commit();
        } catch (SQLException error) {
            out.println("error\t" + error.getSQLState() + "\t" + error.getMessage().replace("\n", " "));
            connection.rollback();
        }
    }

    private static void bind(PreparedStatement asked, int place, String[] one) throws SQLException {
        switch (one[0]) {
            case "date" -> asked.setObject(place, LocalDate.parse(one[1]));
            case "number" -> asked.setDouble(place, Double.parseDouble(one[1]));
            default -> asked.setString(place, one[1]);
        }
    }

    private static void tell(ResultSet rows) throws SQLException {
        ResultSetMetaData about = rows.getMetaData();
        while (rows.next()) {
            var said = new StringBuilder("row");
            for (int i = 1; i <= about.getColumnCount(); i++) {
                Object value = rows.getObject(i);
                if (about.getColumnType(i) == Types.DATE && value != null) {
                    Date old = rows.getDate(i); // counted in the zone of Java
                    value = rows.getObject(i, LocalDate.class) + "=" + old;
                }
                said.append('\t').append(value);
            }
            out.println(said);
        }
    }
}
