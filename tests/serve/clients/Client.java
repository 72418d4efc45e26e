import java.nio.file.*;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;

/** pgjdbc, asked for one thing; prints one line of tab-separated texts for each row, \N for NULL. */
public class Client {
    static String escaped(Object value) {
        if (value == null) return "\\N";
        return value.toString().replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }

    static void print(ResultSet rows) throws SQLException {
        ResultSetMetaData about = rows.getMetaData();
        List<String> names = new ArrayList<>();
        for (int i = 1; i <= about.getColumnCount(); i++) names.add(escaped(about.getColumnLabel(i)));
        System.out.println("columns\t" + String.join("\t", names));
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            for (int i = 1; i <= about.getColumnCount(); i++) values.add(escaped(rows.getString(i)));
            System.out.println("row\t" + String.join("\t", values));
        }
    }

    public static void main(String[] arguments) throws Exception {
        // What is asked: ability, URL, user, certificate, password; then texts, each in a file.
        Properties given = new Properties();
        given.setProperty("user", arguments[2]);
        given.setProperty("password", System.getenv("PGPASSWORD"));
        given.setProperty("sslmode", "verify-full");
        given.setProperty("sslrootcert", arguments[3]);
        List<String> texts = new ArrayList<>();
        for (int i = 4; i < arguments.length; i++) texts.add(Files.readString(Path.of(arguments[i])));
        try (Connection connection = DriverManager.getConnection(arguments[1], given)) {
            switch (arguments[0]) {
                case "ask":
                    for (String text : texts)
                        try (PreparedStatement statement = connection.prepareStatement(text);
                             ResultSet rows = statement.executeQuery()) {
                            print(rows);
                        }
                    break;
                case "parameters":
                    try (PreparedStatement statement = connection.prepareStatement(texts.get(0))) {
                        statement.setString(1, "Injuries");
                        statement.setString(2, "S10");
                        statement.setInt(3, 7);
                        print(statement.executeQuery());
                    }
                    try (PreparedStatement statement = connection.prepareStatement(texts.get(1))) {
                        statement.setString(1, "Old Town");
                        statement.setInt(2, 1990);
                        print(statement.executeQuery());
                        statement.setString(1, "Islands");
                        statement.setInt(2, 2000);
                        print(statement.executeQuery());
                    }
                    try (PreparedStatement statement = connection.prepareStatement(texts.get(2))) {
                        statement.setDouble(1, 0.125);
                        statement.setDate(2, java.sql.Date.valueOf("2024-02-01"));
                        statement.setBigDecimal(3, new java.math.BigDecimal("30.5"));
                        statement.setInt(4, 5);
                        statement.setLong(5, 60);
                        statement.setString(6, "Summit");
                        statement.setDouble(7, 10);
                        statement.setInt(8, 4);
                        print(statement.executeQuery());
                    }
                    break;
                case "large":
                    connection.setAutoCommit(false);  // as pgjdbc needs it to fetch in parts
                    try (Statement statement = connection.createStatement()) {
                        statement.setFetchSize(1000);
                        long count = 0;
                        ResultSet rows = statement.executeQuery(texts.get(0));
                        while (rows.next()) count++;
                        System.out.println("row\t" + count);
                    }
                    break;
                case "refused":
                    try (Statement statement = connection.createStatement()) {
                        statement.executeQuery(texts.get(0));
                    } catch (org.postgresql.util.PSQLException error) {
                        org.postgresql.util.ServerErrorMessage told = error.getServerErrorMessage();
                        System.out.println(
                            "row\t" + escaped(told.getMessage()) + "\t" + error.getSQLState() + "\t" + told.getPosition());
                    }
                    break;
                case "cancelled":
                    try (Statement statement = connection.createStatement()) {
                        Thread canceller = new Thread(() -> {
                            try {
                                // The test says when. A request that comes before the statement has reached
                                // the server cancels nothing, here as in PostgreSQL.
                                if (System.in.read() < 0) throw new IllegalStateException("nobody said when");
                                statement.cancel();
                            } catch (Exception error) {
                                System.err.println(error);
                            }
                        });
                        canceller.start();
                        try {
                            statement.executeQuery(texts.get(0));
                        } catch (SQLException error) {
                            System.out.println("row\t" + escaped(error.getMessage()) + "\t" + error.getSQLState());
                        }
                        canceller.join();
                        print(statement.executeQuery("SELECT 2 AS two"));
                    }
                    break;
                case "browsed":
                    DatabaseMetaData about = connection.getMetaData();
                    print(about.getTables(null, "public", "%", new String[] {"TABLE"}));
                    print(about.getColumns(null, "public", "visits", "%"));
                    break;
                default:
                    throw new IllegalArgumentException(arguments[0]);
            }
        }
    }
}
